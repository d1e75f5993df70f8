package dev.octet.formats.error;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.checkpoint.ModelConfig;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Where a text is no JSON, and what is said of it. Oracle: Jackson's strict parser refuses the same texts. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class JsonFaultTest {
    private static final ObjectMapper STRICT = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    private static final String CONFIG = "{\"a\": [1, -2.5e+3, {}], \"b\\n"
            + "\": {\"c\": null, \"d\": [[], true, \"x\\u00e9\"]},\n"
            + " \"e\": 0.1, \"f\": false}";

    @TempDir
    Path folder;

    private static boolean isRefused(String text) {
        try {
            return STRICT.readTree(text).isMissingNode();
        } catch (JsonProcessingException e) {
            return true;
        }
    }

    @Test
    void every_text_that_lacks_a_character_is_at_fault_where_jackson_refuses_it() {
        int refused = 0;
        for (int i = 0; i < CONFIG.length(); i++) {
            String text = CONFIG.substring(0, i) + CONFIG.substring(i + 1);
            assertEquals(isRefused(text), JsonFault.of(text).isPresent(), text);
            refused += isRefused(text) ? 1 : 0;
        }
        assertTrue(refused > CONFIG.length() / 2, "most characters are needed");
    }

    @Test
    void every_text_with_another_character_is_at_fault_where_jackson_refuses_it() {
        for (int i = 0; i <= CONFIG.length(); i++) {
            for (char c : "{}[],:\"'\\0-.eE+tn/#x \n\u0001\u00e9".toCharArray()) {
                String text = CONFIG.substring(0, i) + c + CONFIG.substring(i);
                assertEquals(isRefused(text), JsonFault.of(text).isPresent(), text);
            }
        }
    }

    @Test
    void every_beginning_of_a_text_is_cut_short() {
        for (int i = 0; i < CONFIG.length(); i++) {
            JsonFault fault = JsonFault.of(CONFIG.substring(0, i)).orElseThrow();
            assertTrue(fault.what().length() > 10 && !fault.fix().isEmpty(), CONFIG.substring(0, i) + " " + fault);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"a\": 1,}           | there is a comma with nothing behind it | 8 | remove the comma",
                "{\"a\": 1 \"b\": 2}   | there is no comma before '\"' | 9 | put a comma there",
                "{a: 1}                | 'a' is where a key in double quotes should be | 2 | put double quotes around"
                        + " the key",
                "{\"a\": 'x'}          | a single quote is no value | 7 | put double quotes around the text",
                "{\"a\": True}         | 'True' is no value | 7 | write true, false, null or a number",
                "{\"a\": NaN}          | 'NaN' is no value | 7 | write true, false, null or a number",
                "{\"a\": 1} // end     | '/' follows the end of the object | 10 | remove what follows",
                "{// a                 | '/' is where a key in double quotes should be | 2 | remove the comment: JSON"
                        + " has none",
                "{\"a\": 01}           | '01' is no number | 7 | ``",
                "{\"a\" 1}             | '1' is where the colon behind a key should be | 6 | ``",
                "{\"a\": \"\\d\"}      | \\d in a text stands for nothing | 8 | write \\\\ for a backslash",
                "[1 2]                 | there is no comma before '2' | 4 | put a comma there",
                "{\"a\": [1, 2}        | '}' is where a comma or ] should be | 12 | ``",
            })
    void the_first_fault_is_named_with_its_place_and_what_to_do(String text, String what, int column, String fix) {
        assertEquals(Optional.of(new JsonFault(what, 1, column, fix)), JsonFault.of(text));
    }

    @Test
    void lines_are_counted() {
        assertEquals(
                "f.json, line 3, column 3",
                JsonFault.of("{\n \"a\": 1\n  \"b\": 2}").orElseThrow().in("f.json"));
    }

    @Test
    void bytes_that_are_no_text_are_named() {
        byte[] bytes = "{\"a\": \"?\"}".getBytes(StandardCharsets.UTF_8);
        bytes[7] = (byte) 0xFF;
        assertEquals(
                "the byte 0xFF is no UTF-8", JsonFault.of(bytes).orElseThrow().what());
        assertEquals(8, JsonFault.of(bytes).orElseThrow().column());
    }

    @Test
    void a_text_nested_as_deep_as_it_is_long_is_read() {
        assertFalse(JsonFault.of("[".repeat(1_000_000) + "]".repeat(1_000_000)).isPresent());
    }

    @Test
    void a_configuration_that_is_no_json_is_refused_in_words_of_our_own() throws IOException {
        Files.writeString(folder.resolve("config.json"), "{\n  \"model_type\": \"llama\",\n}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ModelConfig.read(folder));
        assertEquals("config.json is not JSON: there is a comma with nothing behind it", e.what());
        assertTrue(e.where().endsWith("config.json, line 2, column 24"), e.where());
        assertEquals("remove the comma", e.fix());
    }

    @Test
    void a_configuration_that_is_nested_too_deep_is_refused_as_that() throws IOException {
        Files.writeString(folder.resolve("config.json"), "{\"a\":" + "[".repeat(200) + "]".repeat(200) + "}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ModelConfig.read(folder));
        assertTrue(e.what().startsWith("config.json is nested more than 100 deep"), e.what());
    }
}
