package dev.octet.converter.inspect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as a GGUF file: facts whose sums agree, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class GgufFactsFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_facts_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.gguf"), bytes);
        try {
            GgufFacts facts = GgufFacts.of(file, null);
            assertEquals(facts.list().size(), facts.tensors().count());
            assertEquals(
                    facts.list().stream().mapToLong(TensorFact::bytes).sum(),
                    facts.tensors().bytes());
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
