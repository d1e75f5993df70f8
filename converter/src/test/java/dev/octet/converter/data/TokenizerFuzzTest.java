package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as a tokenizer and the files next to it, as far as Java reads them. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class TokenizerFuzzTest {
    private static final String TOKENIZER =
            "{\"added_tokens\":[{\"id\":1,\"content\":\"</s>\"}],\"model\":{\"vocab\":{\"a\":0}}}";

    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_vocabulary_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("tokenizer.json"), bytes);
        try {
            TokenizerVocabulary vocabulary = TokenizerVocabulary.read(file);
            vocabulary.id("a").ifPresent(id -> assertTrue(id <= vocabulary.largest()));
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_beside_a_tokenizer_name_the_last_token_or_are_refused(byte[] bytes) throws IOException {
        Path file = Files.writeString(folder.resolve("tokenizer.json"), TOKENIZER);
        Files.write(folder.resolve("tokenizer_config.json"), bytes);
        Files.write(folder.resolve("config.json"), bytes);
        try {
            EndOfText.of(file, TokenizerVocabulary.read(file), Optional.empty());
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
