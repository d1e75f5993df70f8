package dev.octet.trainer.yaml;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(ReplaceUnderscores.class)
class HjsonFileTest {
    @TempDir
    Path folder;

    /** Keys with kind and value, as in {@code a=NUMBER 1}. */
    private static List<String> written(String text) {
        return HjsonFile.parse(text, "x.json").written().stream()
                .map(w -> w.key() + "=" + w.kind() + " " + w.value())
                .toList();
    }

    private static InvalidOptionException refused(String text) {
        return assertThrows(InvalidOptionException.class, () -> HjsonFile.parse(text, "x.json"), text);
    }

    @Test
    void json_is_read_with_the_kinds_of_its_values() {
        assertEquals(
                List.of(
                        "a=NUMBER -1.5e-3",
                        "b=TEXT 1",
                        "c=FLAG true",
                        "d=NULL ",
                        "e=LIST [1, x]",
                        "f=MAPPING {g: 2}",
                        "f.g=NUMBER 2",
                        "h=TEXT a\"\nA"),
                written("{\"a\": -1.5e-3, \"b\": \"1\", \"c\": true, \"d\": null, \"e\": [1, \"x\"], \"f\": {\"g\": 2},"
                        + " \"h\": \"a\\\"\\n\\u0041\"}"));
    }

    @Test
    void comments_missing_quotes_and_commas_are_read_as_hjson_has_them() {
        List<String> expected =
                List.of("lr=NUMBER 1e-3", "type=TEXT Adam W", "on=FLAG true", "list=LIST [1, 2]", "last=TEXT a, b # c");
        assertEquals(expected, written("""
            # one
            lr: 1e-3 // two
            type: Adam W
            on: true, /* three
            lines */ list: [1
              2,]
            last: a, b # c
            """));
        assertEquals(List.of("a=TEXT x\n  y"), written("{a: '''x\n  y'''}"));
        assertEquals(List.of("a=NUMBER 1", "b=TEXT 01"), written("\uFEFF{a: 1,\nb: 01\n}"));
        assertEquals(List.of(), written("{}"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '~',
            value = {
                "{\"a\": 1, \"a\": 2} | key 'a' is already given in line 1",
                "{\"a\": {\"b\": 1,\"b\": 2}} | key 'b' is already given in line 1",
                "{\"a\": 1 | the brace of line 1 is not closed",
                "{\"a\": [1 | the bracket of line 1 is not closed",
                "{\"a\": \"x | the quote is not closed",
                "{\"a\": '''x | the triple quote is not closed",
                "{\"a\" 1} | there is no colon after 'a'",
                "{\"a\": } | a value is missing",
                "{\"a\": 1} x | there is text behind the last brace",
                "[1] | the file holds a list, not names and values",
                "{\"a\": \"\\q\"} | \\ stands before a letter that means nothing",
                "{\"a\": \"\\u00g0\"} | \\u needs four hex digits",
                "{/* x | the comment is not closed",
                "{: 1} | a name is expected, but there is ':'"
            })
    void mistakes_are_refused_with_their_line(String text, String what) {
        InvalidOptionException refused = refused(text);
        assertEquals(what, refused.what());
        assertEquals("x.json, line 1", refused.where());
    }

    @Test
    void lines_count_through_comments_and_long_texts() {
        Section file = HjsonFile.parse("{\n# a\n/* b\n */ x: '''1\n2'''\n\"y\": 1}", "x.json");
        assertEquals(
                Map.of("x", 4, "y", 6),
                file.written().stream().collect(Collectors.toMap(Section.Written::key, Section.Written::line)));
        assertEquals("x.json, line 6, key y", file.where("y"));
    }

    @Test
    void hostile_files_end_with_a_message_soon() throws IOException {
        assertTrue(refused("{\"a\": ".repeat(100_000)).what().contains("levels"));
        assertTrue(refused("{\"a\": " + "[".repeat(100_000)).what().contains("levels"));
        Path big = Files.writeString(folder.resolve("big.json"), " ".repeat((1 << 20) + 1));
        assertTrue(assertThrows(InvalidOptionException.class, () -> HjsonFile.read(big))
                .what()
                .contains("limit"));
        Path binary = Files.write(folder.resolve("binary.json"), new byte[] {(byte) 0xff, (byte) 0xfe, 0});
        assertTrue(assertThrows(InvalidOptionException.class, () -> HjsonFile.read(binary))
                .what()
                .contains("UTF-8"));
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
            written("{a: b" + ",".repeat(900_000) + "\n}");
            written("{a: 1" + "#".repeat(900_000) + "\n}");
            String many = IntStream.range(0, 60_000)
                    .mapToObj(i -> "\"k" + i + "\": " + i)
                    .collect(Collectors.joining(", ", "{", "}"));
            assertEquals(60_000, written(many).size());
        });
    }

    @Test
    void any_text_is_read_or_refused() {
        SplittableRandom random = new SplittableRandom(7);
        String letters = "{}[]:,'\"\\#/* \n\r\ta1-.eun\u2028\uD83D";
        for (int i = 0; i < 20_000; i++) {
            StringBuilder text = new StringBuilder("{");
            random.ints(random.nextInt(1, 24), 0, letters.length()).forEach(at -> text.append(letters.charAt(at)));
            try {
                HjsonFile.parse(text.toString(), "x.json").written();
            } catch (InvalidOptionException e) {
                assertTrue(e.where().startsWith("x.json, line "), e.where());
            }
        }
    }
}
