package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as what an interrupted calibration left: tensors, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class SpoolFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_tensors_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.values"), bytes);
        try (ActivationSpill spool = ActivationSpill.open(file)) {
            for (int i = 0; i < 8; i++) {
                Tensor tensor = spool.read("x");
                assertEquals(tensor.spec().byteSize(), tensor.bytes().byteSize());
            }
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    /** Folder and name are right; the statistics next to the values are the fuzzer's. */
    @FuzzTest(maxDuration = "30m")
    void arbitrary_statistics_between_two_pieces_are_gone_on_with_or_refused(byte[] bytes) throws IOException {
        Path checkpoint = folder.resolve("run.stats");
        Path pieces = Files.createDirectories(PieceState.folder(checkpoint));
        Files.write(pieces.resolve("after-3.statistics"), bytes);
        Files.write(pieces.resolve("after-3.values"), new byte[0]);
        try (PieceState state = PieceState.open(checkpoint, "model")) {
            assertEquals(state.position() == 0, state.statistics() == null);
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
