package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary configurations next to a quantised checkpoint: findings, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class VerifierFuzzTest {
    private static final VerifyOptions OPTIONS =
            VerifyOptions.defaults().withTensorParallel(List.of(1, 2, 3)).withThreads(1);

    @TempDir
    static Path blocks;

    @TempDir
    static Path groups;

    @BeforeAll
    static void writeCheckpoints() throws IOException {
        GoodCheckpoint.of(GoodCheckpoint.Kind.CT_CHANNEL).write(blocks);
        GoodCheckpoint.of(GoodCheckpoint.Kind.MODELOPT_NVFP4).write(groups);
    }

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_configuration_is_verified_or_refused(byte[] bytes) throws IOException {
        verify(blocks, "config.json", bytes);
    }

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_quantisation_is_verified_or_refused(byte[] bytes) throws IOException {
        verify(groups, CheckpointSubject.QUANT_CONFIG, bytes);
    }

    private static void verify(Path folder, String file, byte[] bytes) throws IOException {
        Files.write(folder.resolve(file), bytes);
        try {
            Verifier.verify(folder, OPTIONS)
                    .findings()
                    .forEach(f -> assertFalse(f.fix().isEmpty()));
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
