package dev.octet.formats.npy;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** Arbitrary bytes as an array: either a tensor of as many bytes, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class NpyFuzzTest {
    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_an_array_or_refused(byte[] bytes) throws IOException {
        try (Arena arena = Arena.ofConfined();
                NpyReader reader = new NpyReader(
                        new ByteArrayInputStream(bytes), "fuzz", "fuzz", NpyLimits.DEFAULT, bytes.length, -1)) {
            Tensor tensor = reader.readAll(arena);
            Assertions.assertTrue(tensor.bytes().byteSize() < bytes.length);
            NpyHeader.toBytes(tensor.spec());
        } catch (InvalidDataException e) {
            Assertions.assertFalse(e.fix().isEmpty());
        }
    }
}
