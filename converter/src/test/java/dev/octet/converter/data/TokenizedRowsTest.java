package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.data.RowOptions.TrainOn;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class TokenizedRowsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path TOKENIZER = TESTDATA.resolve("models/tiny-lm/gpt2/tokenizer.json");
    private static final Path CHAT = TESTDATA.resolve("chat");
    private static final Path CHATML = CHAT.resolve("templates/chatml.jinja");
    private static final Path MARKED = CHAT.resolve("templates/chatml-generation.jinja");
    private static final String TURNS = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
            + "{\"role\": \"assistant\", \"content\": \"Hello\"}]}";

    @TempDir
    Path folder;

    private static RowOptions options(Path template) {
        return RowOptions.defaults().withChatTemplate(template);
    }

    private static RowOptions all(Path template) {
        return options(template).withTrainOn(TrainOn.ALL);
    }

    private static RowOptions cut(int length) {
        return options(CHATML).withMaxLength(length);
    }

    private static TokenizedRows open(Path data, RowOptions options) throws IOException {
        return TokenizedRows.open(DataFiles.of(data), TOKENIZER, options);
    }

    private Path lines(String... lines) throws IOException {
        return Files.write(folder.resolve("rows.jsonl"), List.of(lines));
    }

    private static List<String> sequences(TokenizedRows rows) {
        List<String> sequences = new ArrayList<>();
        for (int i = 0; i < rows.count(); i++) {
            StringBuilder b = new StringBuilder();
            long[] tokens = rows.tokens(i);
            boolean[] counted = rows.counted(i).orElse(null);
            for (int t = 0; t < tokens.length; t++) {
                b.append(counted == null || counted[t] ? " +" : " ").append(tokens[t]);
            }
            sequences.add(b.substring(1));
        }
        return sequences;
    }

    @Test
    void tokens_and_those_in_generation_blocks_are_the_ones_of_transformers() throws IOException {
        JsonNode golden = new ObjectMapper()
                .readTree(TESTDATA.resolve("golden/chat/tokens.json").toFile());
        try (TokenizedRows rows = open(CHAT.resolve("chat.jsonl"), options(MARKED))) {
            assertEquals(golden.size(), rows.count());
            for (int i = 0; i < rows.count(); i++) {
                List<Integer> tokens = new ArrayList<>();
                List<Integer> counted = new ArrayList<>();
                for (int t = 0; t < rows.tokens(i).length; t++) {
                    tokens.add((int) rows.tokens(i)[t]);
                    counted.add(rows.counted(i).orElseThrow()[t] ? 1 : 0);
                }
                assertEquals(
                        golden.get(i).get("tokens").toString(),
                        tokens.toString().replace(" ", ""));
                assertEquals(
                        golden.get(i).get("assistant").toString(),
                        counted.toString().replace(" ", ""));
            }
        }
    }

    @Test
    void without_generation_blocks_the_assistants_turns_count_with_what_ends_them() throws IOException {
        String text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
        try (TokenizedRows rows = open(lines(TURNS), options(CHATML));
                TokenizedRows begin = open(lines("{\"text\": \"" + text.replace("\n", "\\n") + "\"}"), all(CHATML));
                TokenizedRows end = open(lines("{\"text\": \"Hello<|im_end|>\\n\"}"), all(CHATML))) {
            boolean[] counted = rows.counted(0).orElseThrow();
            int prompt = begin.tokens(0).length;
            assertEquals(prompt + end.tokens(0).length, counted.length);
            for (int i = 0; i < counted.length; i++) {
                assertEquals(i >= prompt, counted[i], "token " + i);
            }
        }
    }

    @Test
    void all_of_a_conversation_counts_where_that_is_asked() throws IOException {
        try (TokenizedRows rows = open(lines(TURNS), all(CHATML));
                TokenizedRows own = open(lines(TURNS), options(CHATML))) {
            assertTrue(rows.counted(0).isEmpty());
            assertArrayEquals(own.tokens(0), rows.tokens(0));
            assertNotEquals(own.digest(), rows.digest());
        }
    }

    @Test
    void share_gpt_spells_the_same_conversation() throws IOException {
        String spelt = "{\"conversations\": [{\"from\": \"human\", \"value\": \"Hi\"}, "
                + "{\"from\": \"gpt\", \"value\": \"Hello\"}]}";
        try (TokenizedRows rows = open(lines(TURNS), options(CHATML))) {
            List<String> expected = sequences(rows);
            try (TokenizedRows same = open(lines(spelt), options(CHATML))) {
                assertEquals(expected, sequences(same));
            }
        }
    }

    @Test
    void a_completion_counts_with_the_token_that_ends_it_and_its_prompt_does_not() throws IOException {
        try (TokenizedRows rows =
                open(lines("{\"prompt\": \"In the beginning\", \"completion\": \" God created\"}"), options(CHATML))) {
            String sequence = sequences(rows).getFirst();
            assertTrue(sequence.endsWith("+1023"), sequence);
            assertTrue(sequence.matches("(\\d+ )+(\\+\\d+ ?)+"), sequence);
        }
    }

    @Test
    void prompt_and_completion_may_be_messages() throws IOException {
        String row = "{\"prompt\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                + "\"completion\": [{\"role\": \"assistant\", \"content\": \"Hello\"}]}";
        try (TokenizedRows rows = open(lines(TURNS), options(CHATML))) {
            List<String> expected = sequences(rows);
            try (TokenizedRows same = open(lines(row), options(CHATML))) {
                assertEquals(expected, sequences(same));
            }
        }
    }

    @Test
    void the_template_of_the_folder_is_its_own_file_or_in_the_configuration() throws IOException {
        Files.copy(TOKENIZER, folder.resolve("tokenizer.json"));
        Path data = lines(TURNS);
        RowOptions own = RowOptions.defaults().withTrainOn(TrainOn.ALL);
        InvalidOptionException none = assertThrows(
                InvalidOptionException.class,
                () -> TokenizedRows.open(DataFiles.of(data), folder.resolve("tokenizer.json"), own));
        assertTrue(none.what().contains("chat template"), none.what());
        Files.writeString(
                folder.resolve("tokenizer_config.json"),
                "{\"bos_token\": {\"content\": \"In\"}, \"chat_template\": [{\"name\": \"default\", "
                        + "\"template\": \"{{ bos_token }}\"}, {\"name\": \"tool_use\", \"template\": \"tools\"}]}");
        List<String> named;
        try (TokenizedRows rows = TokenizedRows.open(DataFiles.of(data), folder.resolve("tokenizer.json"), own)) {
            named = sequences(rows);
        }
        Files.writeString(folder.resolve("chat_template.jinja"), "{{ bos_token }}{{ bos_token }}");
        try (TokenizedRows rows = TokenizedRows.open(DataFiles.of(data), folder.resolve("tokenizer.json"), own)) {
            assertEquals(
                    2 * named.getFirst().split(" ").length,
                    sequences(rows).getFirst().split(" ").length);
        }
    }

    @Test
    void shards_of_parquet_are_the_conversations_they_were_written_from() throws IOException {
        try (TokenizedRows lines = open(CHAT.resolve("chat.jsonl"), options(CHATML));
                TokenizedRows shards = open(CHAT.resolve("parquet/chats/train"), options(CHATML));
                TokenizedRows test = open(CHAT.resolve("parquet/chats/test"), options(CHATML))) {
            assertEquals(sequences(lines), sequences(shards));
            assertEquals(sequences(lines).subList(0, 3), sequences(test));
            assertNotEquals(lines.digest(), shards.digest());
        }
    }

    @Test
    void parquet_has_texts_with_labels_completions_and_tokens() throws IOException {
        try (TokenizedRows texts = open(CHAT.resolve("parquet/texts.parquet"), options(CHATML));
                TokenizedRows completions = open(CHAT.resolve("parquet/completions.parquet"), options(CHATML));
                TokenizedRows tokens = open(CHAT.resolve("parquet/tokens.parquet"), options(CHATML))) {
            assertEquals(12, texts.count());
            assertTrue(texts.counted(0).isEmpty());
            LineLabels labels = texts.labels("label").orElseThrow();
            assertArrayEquals(new double[] {1}, labels.values(3));
            assertTrue(labels.isWhole(3));
            assertTrue(sequences(completions).stream()
                    .allMatch(s -> s.matches("(\\d+ )+(\\+\\d+ ?)+") && s.endsWith("+1023")));
            assertEquals("1 2 +3 +4", sequences(tokens).getFirst());
            assertEquals(15, tokens.tokens(11).length);
        }
    }

    @Test
    void a_folder_is_read_in_the_order_of_names() throws IOException {
        Files.writeString(folder.resolve("b.jsonl"), "{\"text\": \"second\"}\n");
        Files.writeString(folder.resolve("a.jsonl"), "{\"text\": \"first\"}\n");
        Files.writeString(folder.resolve("README.md"), "not data");
        try (TokenizedRows rows = open(folder, options(CHATML))) {
            List<String> both = sequences(rows);
            try (TokenizedRows first = open(folder.resolve("a.jsonl"), options(CHATML))) {
                assertEquals(sequences(first), both.subList(0, 1));
            }
            assertEquals(2, both.size());
        }
        assertFalse(TokenizedRows.isTextLines(DataFiles.of(folder)));
        assertTrue(TokenizedRows.isTextLines(DataFiles.of(folder.resolve("a.jsonl"))));
        assertFalse(TokenizedRows.isTextLines(DataFiles.of(CHAT.resolve("chat.jsonl"))));
    }

    private OctetException refused(Path data, RowOptions options) {
        return assertThrows(OctetException.class, () -> open(data, options).close());
    }

    @Test
    void folders_that_are_not_one_data_set_are_refused() throws IOException {
        assertTrue(refused(folder, options(CHATML)).what().contains("neither .jsonl nor .parquet"));
        OctetException splits = refused(CHAT.resolve("parquet/chats"), options(CHATML));
        assertEquals("the folder has the splits [test, train]", splits.what());
        Files.copy(
                CHAT.resolve("parquet/chats/train-00001-of-00002.parquet"),
                folder.resolve("train-00001-of-00002.parquet"));
        assertEquals(
                "shard 00000 of split train of 00002 is missing",
                refused(folder, options(CHATML)).what());
        Files.move(folder.resolve("train-00001-of-00002.parquet"), folder.resolve("train-00000-of-00002.parquet"));
        assertEquals(
                "shard 00001 of split train of 00002 is missing",
                refused(folder, options(CHATML)).what());
        lines(TURNS);
        assertTrue(refused(folder, options(CHATML)).what().contains(".jsonl and .parquet"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '@',
            quoteCharacter = '`',
            value = {
                "{\"messages\": []} @ \"messages\" is an empty list",
                "{\"messages\": \"Hi\"} @ \"messages\" is not a list of messages",
                "{\"messages\": [{\"content\": \"Hi\"}]} @ message 1 of \"messages\" has no \"role\"",
                "{\"messages\": [{\"role\": \"user\", \"content\": 1}]} @ has no text or list of parts",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]} @ no message of the assistant",
                "{\"messages\": [{\"role\": \"assistant\", \"content\": null}]} @ the chat template fails: line 2",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": \"[\"} @ \"tools\" is text,"
                        + " but not JSON",
                "{\"prompt\": \"a\", \"completion\": 1} @ \"completion\" is not text",
                "{\"input_ids\": [1, \"2\"]} @ not a list of token numbers",
                "{\"input_ids\": [1, -2]} @ not a list of token numbers",
                "{\"input_ids\": [1, 2], \"labels\": [1]} @ \"labels\" is neither the tokens nor negative",
                "{\"chosen\": \"a\", \"rejected\": \"b\"} @ none of which is what is trained on",
                "[1] @ not a JSON object",
            })
    void a_row_that_cannot_be_trained_on_is_refused_with_its_line(String line, String what) throws IOException {
        OctetException e = refused(lines("", line), options(CHATML));
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.where().contains("rows.jsonl, line 2"), e.where());
    }

    @Test
    void rows_of_two_kinds_are_refused() throws IOException {
        OctetException e = refused(lines(TURNS, "{\"text\": \"Hi\"}"), options(CHATML));
        assertEquals("the row has no \"messages\", which the rows before have, but \"text\"", e.what());
        assertTrue(e.where().endsWith("line 2"), e.where());
    }

    @Test
    void a_template_that_refuses_a_conversation_says_why_and_where() throws IOException {
        OctetException e = refused(
                lines("{\"messages\": [{\"role\": \"assistant\", \"content\": \"Hello\"}]}"),
                options(CHAT.resolve("templates/gemma.jinja")));
        assertEquals("the chat template refuses the messages: roles must take turns", e.what());
        assertTrue(e.where().contains("line 1; template"), e.where());
    }

    @Test
    void a_template_that_renders_the_beginning_otherwise_is_refused_for_several_turns() throws IOException {
        String answer = "{\"role\": \"assistant\", \"content\": \"<think>\\nhm\\n</think>\\n\\nok\"}";
        String user = "{\"role\": \"user\", \"content\": \"Hi\"}";
        Path qwen = CHAT.resolve("templates/qwen3.jinja");
        OctetException e = refused(
                lines("{\"messages\": [" + user + "," + answer + "," + user + "," + answer + "]}"), options(qwen));
        assertTrue(e.what().contains("renders the conversation up to message 2 otherwise"), e.what());
        assertTrue(e.fix().contains("{% generation %}"), e.fix());
        try (TokenizedRows one = open(lines("{\"messages\": [" + user + "," + answer + "]}"), options(qwen))) {
            assertEquals(1, one.count());
        }
    }

    @Test
    void a_sample_of_which_nothing_counts_after_the_cut_is_refused() throws IOException {
        OctetException e = refused(lines(TURNS, TURNS), cut(4));
        assertEquals("2 of 2 samples are cut to 4 tokens before anything of them counts", e.what());
        assertTrue(e.where().endsWith("line 1"), e.where());
    }

    @Test
    void a_template_that_asks_for_the_date_needs_one() throws IOException {
        Path template = Files.writeString(folder.resolve("t.jinja"), "{{ strftime_now('%Y') }}");
        OctetException e = refused(lines(TURNS), all(template));
        assertTrue(e.what().contains("today's date"), e.what());
        assertTrue(e.fix().contains("date: 2026-01-31"), e.fix());
    }

    @Test
    void what_is_not_a_template_is_refused() throws IOException {
        Path template = Files.writeString(folder.resolve("t.jinja"), "{% for %}");
        OctetException e = refused(lines(TURNS), all(template));
        assertTrue(e.what().startsWith("not a chat template: line 1"), e.what());
    }

    @Test
    void broken_parquet_is_refused() throws IOException {
        byte[] good = Files.readAllBytes(CHAT.resolve("parquet/texts.parquet"));
        Path bad = folder.resolve("bad.parquet");
        for (int length : new int[] {0, 3, 4, 12, good.length / 2, good.length - 1}) {
            Files.write(bad, Arrays.copyOf(good, length));
            OctetException e = refused(bad, options(CHATML));
            assertTrue(e instanceof InvalidDataException, e.toString());
            assertTrue(e.what().startsWith("not a Parquet file"), e.what());
        }
    }

    @Test
    void a_compression_that_is_not_read_is_named() {
        OctetException e = refused(CHAT.resolve("parquet/preferences.parquet"), options(CHATML));
        assertEquals("column \"prompt\" is compressed by ZSTD, which is not read", e.what());
        assertTrue(e.fix().contains("snappy"), e.fix());
    }
}
