package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class TokenizedTextsTest {
    private static final Path WORDS = Path.of(System.getProperty("octet.testdata"), "tokenizer", "words.json");
    /** [SEP] of that tokenizer. */
    private static final long SEP = 8;

    @TempDir
    Path folder;

    private TokenizedTexts open(OptionalInt maxLength, Optional<String> end, String... lines) throws IOException {
        Path tokenizer = folder.resolve("tokenizer.json");
        Files.copy(WORDS, tokenizer);
        return TokenizedTexts.open(Files.write(folder.resolve("t.jsonl"), List.of(lines)), tokenizer, maxLength, end);
    }

    @Test
    void texts_have_their_tokens_and_no_padding_whatever_the_tokenizer_pads() throws IOException {
        try (TokenizedTexts texts =
                open(OptionalInt.empty(), Optional.empty(), "{\"text\": \"The cat sat\"}", "{\"text\": \"a dog\"}")) {
            List<long[]> tokens = texts.tokens(0, 2);
            assertArrayEquals(new long[] {7, 10, 11, 13, 8}, tokens.get(0));
            assertArrayEquals(new long[] {7, 9, 12, 8}, tokens.get(1));
        }
    }

    @Test
    void a_text_is_cut_only_where_a_length_is_given() throws IOException {
        String line = "{\"text\": \"" + "cat ".repeat(3000).strip() + "\"}";
        try (TokenizedTexts whole = open(OptionalInt.empty(), Optional.empty(), line);
                TokenizedTexts cut = TokenizedTexts.open(
                        folder.resolve("t.jsonl"),
                        folder.resolve("tokenizer.json"),
                        OptionalInt.of(5),
                        Optional.empty())) {
            assertEquals(3002, whole.tokens(0, 1).getFirst().length);
            assertArrayEquals(new long[] {7, 11, 11, 11, 8}, cut.tokens(0, 1).getFirst());
            assertNotEquals(whole.digest(), cut.digest());
        }
    }

    @Test
    void the_user_may_name_the_token_that_ends_a_text() throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.of("[SEP]"), "{\"text\": \"a\"}")) {
            assertEquals(SEP, texts.endOfText());
        }
    }

    @Test
    void a_named_token_that_the_tokenizer_does_not_have_is_refused() throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.of("</s>"), "{\"text\": \"a\"}")) {
            InvalidOptionException e = assertThrows(InvalidOptionException.class, texts::endOfText);
            assertEquals("the tokenizer has no token '</s>'", e.what());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "tokenizer_config.json|{\"eos_token\": \"[SEP]\"}",
                "tokenizer_config.json|{\"eos_token\": {\"content\": \"[SEP]\", \"lstrip\": false}}",
                "special_tokens_map.json|{\"eos_token\": \"[SEP]\"}",
                "config.json|{\"eos_token_id\": 8}",
                "config.json|{\"eos_token_id\": [8, 4]}",
            })
    void files_beside_the_tokenizer_say_which_token_ends_a_text(String name, String json) throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.empty(), "{\"text\": \"a\"}")) {
            Files.writeString(folder.resolve(name), json);
            assertEquals(SEP, texts.endOfText());
        }
    }

    @Test
    void the_tokenizers_own_files_go_before_the_models_configuration() throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.empty(), "{\"text\": \"a\"}")) {
            Files.writeString(folder.resolve("config.json"), "{\"eos_token_id\": 4}");
            Files.writeString(folder.resolve("tokenizer_config.json"), "{\"eos_token\": \"[SEP]\"}");
            assertEquals(SEP, texts.endOfText());
        }
    }

    @ParameterizedTest
    @CsvSource({"config.json,{}", "tokenizer_config.json,{\"eos_token\": null}"})
    void where_nothing_says_which_token_ends_a_text_the_key_is_named(String name, String json) throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.empty(), "{\"text\": \"a\"}")) {
            Files.writeString(folder.resolve(name), json);
            InvalidOptionException e = assertThrows(InvalidOptionException.class, texts::endOfText);
            assertEquals("no file names the token that ends a text", e.what());
        }
    }

    @Test
    void a_configuration_that_is_no_json_is_named() throws IOException {
        try (TokenizedTexts texts = open(OptionalInt.empty(), Optional.empty(), "{\"text\": \"a\"}")) {
            Path broken = Files.writeString(folder.resolve("tokenizer_config.json"), "{\"eos_token\": ");
            InvalidDataException e = assertThrows(InvalidDataException.class, texts::endOfText);
            assertEquals(broken + ", line 1, column 15", e.where());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 12}, \"merges\": [[\"a\", \"b\"]]}}|12",
                "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1.5], [\"b\", -2]]}}|1",
                "{\"added_tokens\": [{\"id\": 7, \"content\": \"x\", \"special\": true}], \"model\": {\"vocab\":"
                        + " {\"a\": 0}}}|7",
                "{\"model\": {}}|-1",
                "[]|-1",
            })
    void the_largest_token_is_that_of_the_model_or_of_the_added_ones(String json, long largest) throws IOException {
        Path file = Files.writeString(folder.resolve("any.json"), json);
        assertEquals(largest, TokenizerVocabulary.read(file).largest());
    }

    @Test
    void a_tokenizer_that_is_no_json_is_refused() throws IOException {
        Path file = Files.writeString(folder.resolve("any.json"), "{\"model\": {\"vocab\": {\"a\": 0");
        assertThrows(InvalidDataException.class, () -> TokenizerVocabulary.read(file));
    }
}
