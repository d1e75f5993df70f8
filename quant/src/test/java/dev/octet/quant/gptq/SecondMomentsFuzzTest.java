package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as second moments: either some that survive writing, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class SecondMomentsFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_second_moments_or_refused(byte[] bytes) throws IOException {
        read(bytes);
    }

    /** The length field, the format's metadata and the first of two tensors are right; the rest is the fuzzer's. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_triangle_is_a_second_moment_or_refused(byte[] bytes) throws IOException {
        String rest = new String(bytes, StandardCharsets.ISO_8859_1);
        int cut = rest.indexOf('|');
        String entry = cut < 0 ? rest : rest.substring(0, cut);
        byte[] header = ("{\"__metadata__\":{\"moments.format\":\"octet.second-moments\",\"moments.version\":\"1\","
                        + "\"moments.octet\":\"0\",\"moments.rows.x\":\"3\"" + entry + "}")
                .getBytes(StandardCharsets.ISO_8859_1);
        byte[] data = cut < 0 ? new byte[24] : rest.substring(cut + 1).getBytes(StandardCharsets.ISO_8859_1);
        ByteBuffer file = ByteBuffer.allocate(8 + header.length + data.length).order(ByteOrder.LITTLE_ENDIAN);
        read(file.putLong(header.length).put(header).put(data).array());
    }

    private static void read(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.safetensors"), bytes);
        SecondMoments moments;
        try {
            moments = SecondMoments.read(file);
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
            return;
        }
        Path again = folder.resolve("again.safetensors");
        moments.write(again);
        byte[] once = Files.readAllBytes(again);
        SecondMoments.read(again).write(again);
        assertArrayEquals(once, Files.readAllBytes(again));
    }
}
