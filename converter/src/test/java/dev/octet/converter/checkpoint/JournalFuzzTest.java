package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as the journal of an earlier run: gone on with, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class JournalFuzzTest {
    private static final String SHARD = "model-00001-of-00002.safetensors";

    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_journal_is_gone_on_with_or_refused(byte[] bytes) throws IOException {
        ObjectNode fingerprint = JsonNodeFactory.instance.objectNode().put("recipe", "fp8");
        Files.write(folder.resolve(Journal.FILE_NAME), bytes);
        Files.write(folder.resolve(SHARD), new byte[8]);
        try {
            Journal journal = Journal.open(folder, fingerprint, false);
            journal.has(folder, SHARD);
            journal.add(folder, SHARD);
            Journal.open(folder, fingerprint, false).has(folder, SHARD);
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
