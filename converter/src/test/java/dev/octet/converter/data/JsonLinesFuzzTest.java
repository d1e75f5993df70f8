package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as texts, one object a line: either texts or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class JsonLinesFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_texts_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.jsonl"), bytes);
        try (JsonLines lines = JsonLines.open(file)) {
            for (int i = 0; i < lines.count(); i++) {
                assertNotNull(lines.text(i));
            }
        } catch (InvalidDataException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
