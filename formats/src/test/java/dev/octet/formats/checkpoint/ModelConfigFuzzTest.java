package dev.octet.formats.checkpoint;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as {@code config.json}: either an object that survives writing, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class ModelConfigFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_configuration_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve(ModelConfig.FILE_NAME), bytes);
        ObjectNode config;
        try {
            config = ModelConfig.read(folder).orElseThrow();
        } catch (MalformedModelException e) {
            assertFalse(e.fix().isEmpty());
            return;
        }
        ModelConfig.write(file, config);
        byte[] once = Files.readAllBytes(file);
        ObjectNode again = ModelConfig.read(folder).orElseThrow();
        ModelConfig.write(file, again);
        assertArrayEquals(once, Files.readAllBytes(file));
        assertEquals(again, ModelConfig.parse(config.toString(), "again"));
    }
}
