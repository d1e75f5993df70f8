package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
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

/** Where Jackson refuses a text, and what is said of it. */
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

    /** What is said of bytes that Jackson refuses; empty where it does not. */
    private static Optional<JsonFault> fault(byte[] bytes) throws IOException {
        try {
            STRICT.readTree(bytes);
            return Optional.empty();
        } catch (JsonProcessingException e) {
            return Optional.of(JsonFault.of(e, bytes));
        }
    }

    private static Optional<JsonFault> fault(String text) throws IOException {
        return fault(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Jackson's classes, options and numbers of characters are not for users. */
    private static void requireWords(JsonFault fault, String text) {
        assertTrue(fault.what().matches("(a|it|the|there|'.+?'|a single quote) .{8,}"), text + ": " + fault);
        assertFalse(fault.what().matches(".*([A-Z]{3,}_|code \\d|Jackson|token|marker).*"), text + ": " + fault);
        assertTrue(fault.line() >= 1 && fault.column() >= 1, text + ": " + fault);
    }

    @Test
    void every_text_with_another_character_or_without_one_is_refused_in_words_for_users() throws IOException {
        int refused = 0;
        for (int i = 0; i <= CONFIG.length(); i++) {
            for (char c : "{}[],:\"'\\0-.eE+tn/#x \n\u0001\u00e9".toCharArray()) {
                String text = CONFIG.substring(0, i) + c + CONFIG.substring(i);
                Optional<JsonFault> fault = fault(text);
                fault.ifPresent(f -> requireWords(f, text));
                refused += fault.isPresent() ? 1 : 0;
            }
            String less = CONFIG.substring(0, i) + CONFIG.substring(Math.min(i + 1, CONFIG.length()));
            fault(less).ifPresent(f -> requireWords(f, less));
        }
        assertTrue(refused > CONFIG.length() * 10, "only " + refused + " texts were refused");
    }

    @Test
    void every_beginning_of_a_text_is_refused() throws IOException {
        for (int i = 1; i < CONFIG.length(); i++) {
            String text = CONFIG.substring(0, i);
            requireWords(fault(text).orElseThrow(), text);
        }
        assertEquals("it ends too early", fault("{\"a\": [1").orElseThrow().what());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"a\": 1,}           | there is a comma with nothing behind it | 9 | remove the comma",
                "{\"a\": 1 \"b\": 2}   | there is no comma or colon before '\"' | 9 | put it there",
                "{a: 1}                | 'a' is not what can stand here | 2 | put double quotes around it",
                "{\"a\": 'x'}          | a single quote is not what can stand here | 7 | put double quotes around it",
                "{\"a\": True}         | 'True' is not what can stand here | 7 | write true, false, null or a number",
                "{\"a\": NaN}          | 'NaN' is not what can stand here | 10 | write true, false, null or a number",
                "{\"a\": 1} // end     | '/' is not what can stand here | 10 | remove the comment: JSON has none",
                "{\"a\" 1}             | there is no comma or colon before '1' | 6 | put it there",
                "[1 2]                 | there is no comma or colon before '2' | 4 | put it there",
                "{\"a\": [1, 2}        | '}' is not what can stand here | 12 | ``",
            })
    void the_first_fault_is_named_with_its_place_and_what_to_do(String text, String what, int column, String fix)
            throws IOException {
        assertEquals(Optional.of(new JsonFault(what, 1, column, fix)), fault(text));
    }

    @Test
    void lines_are_counted() throws IOException {
        assertEquals(
                "f.json, line 3, column 3",
                fault("{\n \"a\": 1\n  \"b\": 2}").orElseThrow().in("f.json"));
    }

    @Test
    void bytes_that_are_no_text_are_named() throws IOException {
        byte[] bytes = "{\"a\": \"?\"}".getBytes(StandardCharsets.UTF_8);
        bytes[7] = (byte) 0xFF;
        assertEquals("the byte 0xFF is no UTF-8", fault(bytes).orElseThrow().what());
    }

    @Test
    void a_configuration_that_is_no_json_is_refused_in_words_of_our_own() throws IOException {
        Files.writeString(folder.resolve("config.json"), "{\n  \"model_type\": \"llama\",\n}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ModelConfig.read(folder));
        assertEquals("config.json is not JSON: there is a comma with nothing behind it", e.what());
        assertTrue(e.where().endsWith("config.json, line 3, column 1"), e.where());
        assertEquals("remove the comma", e.fix());
    }

    @Test
    void a_configuration_that_is_nested_too_deep_is_refused_as_that() throws IOException {
        Files.writeString(folder.resolve("config.json"), "{\"a\":" + "[".repeat(200) + "]".repeat(200) + "}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ModelConfig.read(folder));
        assertTrue(e.what().startsWith("config.json is nested more than 100 deep"), e.what());
    }
}
