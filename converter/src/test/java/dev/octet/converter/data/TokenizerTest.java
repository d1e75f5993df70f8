package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Isolated;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Files that the library ends its process for; a process that lives through these tests is half of what they check. */
@Isolated // counts what is left of trials in the cache of this process
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class TokenizerTest {
    private static final Path WORDS = Path.of(System.getProperty("octet.testdata"), "tokenizer", "words.json");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CACHE = "octet.cache";

    @TempDir
    static Path cache;

    @TempDir
    Path folder;

    @BeforeAll
    static void a_cache_of_its_own() {
        System.setProperty(CACHE, cache.toString());
    }

    @AfterAll
    static void the_cache_of_all() {
        System.clearProperty(CACHE);
    }

    /** The tokenizer of words, one part of it replaced. */
    private Path with(String part, String json) throws IOException {
        ObjectNode root = (ObjectNode) JSON.readTree(WORDS.toFile());
        root.set(part, JSON.readTree(json));
        return Files.writeString(folder.resolve("tokenizer.json"), root.toString());
    }

    private static long marks() throws IOException {
        Path tried = cache.resolve("tokenizers");
        if (!Files.exists(tried)) {
            return 0;
        }
        try (Stream<Path> all = Files.list(tried)) {
            return all.count();
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                // the template of a tokenizer whose special tokens were renamed
                "post_processor | {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '[CLS]',"
                    + " 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [], 'special_tokens': {}} |"
                    + " the template names the special token '[CLS]', which its special_tokens do not have |"
                    + " post_processor.single",
                "post_processor | {'type': 'Sequence', 'processors': [{'type': 'TemplateProcessing', 'single': [],"
                        + " 'pair': [{'SpecialToken': {'id': '</s>', 'type_id': 0}}], 'special_tokens': {}}]}"
                        + " | the template names the special token '</s>', which its special_tokens do not have"
                        + " | post_processor.processors[0].pair",
                "model | {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2}, 'merges': ['a b'],"
                        + " 'continuing_subword_prefix': '##'}"
                        + " | the merge of 'b' does not begin with the continuing_subword_prefix | model.merges[0]",
                "model | {'type': 'BPE', 'vocab': {'a': 0, '\u00e9': 1, 'a\u00e9': 2}, 'merges': [['a', '\u00e9']],"
                        + " 'continuing_subword_prefix': '#'} | the merge of '\u00e9' does not begin with the"
                        + " continuing_subword_prefix | model.merges[0]",
                "normalizer | {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': ''}, {'type':"
                        + " 'Nmt'}]} | a normalizer prepends nothing | normalizer.normalizers[0].prepend",
                "normalizer | {'type': 'Sequence', 'normalizers': [{'type': 'Replace', 'pattern': {'Regex': ''},"
                        + " 'content': 'b'}, {'type': 'Nmt'}]}"
                        + " | a normalizer replaces nothing | normalizer.normalizers[0].pattern"
            })
    void a_known_contradiction_is_told_without_a_crash(String part, String json, String what, String where)
            throws IOException {
        Path file = with(part, json.replace('\'', '"'));
        InvalidDataException e =
                assertThrows(InvalidDataException.class, () -> Tokenizer.unpadded(file, OptionalInt.empty()));
        assertEquals(what, e.what());
        assertEquals(file + ", " + where, e.where());
    }

    @Test
    void a_file_that_crashes_the_library_in_a_way_nobody_knew_is_refused() throws IOException {
        // a search without end, which the library cuts short by a panic
        Path file = with("pre_tokenizer", """
            {"type": "Split", "pattern": {"Regex": "(((((a*)*)*)*)*)*b|\\\\p{L}{1,900}"}, "behavior": "Isolated", "invert": false}
            """);
        long before = marks();
        for (int i = 0; i < 2; i++) {
            InvalidDataException e =
                    assertThrows(InvalidDataException.class, () -> Tokenizer.unpadded(file, OptionalInt.empty()));
            assertEquals(
                    "the tokenizer's library crashes on this file: Onig: Regex search error: retry-limit-in-match over",
                    e.what());
            assertEquals(file.toString(), e.where());
        }
        assertEquals(before, marks());
    }

    @Test
    void a_file_is_tried_once() throws IOException {
        Path file = with("decoder", "null");
        long before = marks();
        for (int i = 0; i < 2; i++) {
            Tokenizer.unpadded(file, OptionalInt.empty()).close();
            assertEquals(before + 1, marks());
        }
    }

    @Test
    void a_word_without_a_token_is_told_where_the_token_for_unknown_ones_is_missing_too() throws IOException {
        Path file = with("model", "{\"type\": \"WordLevel\", \"vocab\": {\"cat\": 0}, \"unk_token\": \"[nope]\"}");
        try (Tokenizer tokenizer = Tokenizer.unpadded(file, OptionalInt.empty())) {
            InvalidDataException e =
                    assertThrows(InvalidDataException.class, () -> tokenizer.encode(List.of("cat", "dog")));
            assertTrue(e.what().startsWith("the tokenizer cannot encode the text: "), e.what());
            assertTrue(e.what().contains("Missing [UNK]"), e.what());
        }
    }

    @Test
    void an_overlap_longer_than_the_texts_is_not_asked_for() throws IOException {
        Path file = with(
                "truncation",
                "{\"direction\": \"Right\", \"max_length\": 64, \"strategy\": \"LongestFirst\", \"stride\": 60}");
        try (Tokenizer tokenizer = Tokenizer.unpadded(file, OptionalInt.of(5))) {
            assertArrayEquals(
                    new long[] {7, 11, 11, 11, 8},
                    tokenizer.encode(List.of("cat ".repeat(50))).getFirst().ids());
        }
    }

    @Test
    void texts_of_a_batch_are_padded_to_the_longest_as_the_file_says() throws IOException {
        List<String> texts = List.of("The cat sat", "a dog", "");
        try (Tokenizer tokenizer = Tokenizer.open(with("padding", "null"), 16)) {
            List<TokenizedText> rows = tokenizer.encode(texts);
            assertArrayEquals(new long[] {7, 10, 11, 13, 8}, rows.get(0).ids());
            assertArrayEquals(new long[] {7, 9, 12, 8, 0}, rows.get(1).ids());
            assertArrayEquals(new long[] {1, 1, 1, 1, 0}, rows.get(1).mask());
            assertArrayEquals(new long[] {7, 8, 0, 0, 0}, rows.get(2).ids());
        }
        Path left = with("padding", """
            {"strategy": {"Fixed": 20}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 6, "pad_type_id": 3,
             "pad_token": "[PAD]"}
            """);
        try (Tokenizer tokenizer = Tokenizer.open(left, 16)) {
            TokenizedText row = tokenizer.encode(texts).get(1);
            assertArrayEquals(new long[] {6, 7, 9, 12, 8}, row.ids());
            assertArrayEquals(new long[] {0, 1, 1, 1, 1}, row.mask());
            assertArrayEquals(new long[] {3, 0, 0, 0, 0}, row.types());
        }
    }
}
