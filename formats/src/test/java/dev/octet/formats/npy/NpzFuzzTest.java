package dev.octet.formats.npy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as an archive of arrays: each is a tensor, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class NpzFuzzTest {
    /** Enough for every seed; keeps one input from taking seconds. */
    private static final NpyLimits LIMITS = new NpyLimits(NpyLimits.MAX_HEADER_BYTES, NpyLimits.MAX_RANK, 64, 1 << 20);

    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_an_archive_of_arrays_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.npz"), bytes);
        try (NpzFile npz = NpzFile.open(file, LIMITS)) {
            for (String name : npz.names()) {
                read(npz, name);
            }
        } catch (InvalidDataException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    private static void read(NpzFile npz, String name) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = npz.read(name, arena);
            assertEquals(npz.spec(name), tensor.spec());
            if (tensor.shape().rank() > 0 && tensor.shape().dim(0) > 1) {
                npz.read(name, 1, 1, arena);
            }
        } catch (InvalidDataException e) {
            assertFalse(e.fix().isEmpty());
        }
    }
}
