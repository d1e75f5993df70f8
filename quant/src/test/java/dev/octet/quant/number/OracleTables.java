package dev.octet.quant.number;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.zip.GZIPInputStream;

/** The tables of testdata/golden/fp8, made with ml_dtypes. */
public final class OracleTables {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "golden", "fp8");

    private OracleTables() {}

    /** The value of each code. */
    public static float[] decoded(Float8Format format) {
        try {
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(FOLDER.resolve(nameOf(format) + ".decode.f32")))
                    .order(ByteOrder.LITTLE_ENDIAN);
            float[] values = new float[bytes.remaining() / 4];
            bytes.asFloatBuffer().get(values);
            return values;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Whether there is a table: E8M0 has none for saturating casts. */
    public static boolean has(Float8Format format, Overflow overflow) {
        return format != Float8Format.E8M0 || overflow == Overflow.NON_SATURATING;
    }

    /** The code of each of the 65,536 bit patterns of {@code source}, "bf16" or "f16". */
    public static byte[] encoded(Float8Format format, String source, Overflow overflow) {
        String mode = overflow == Overflow.SATURATE ? "sat" : "nosat";
        Path file = FOLDER.resolve(nameOf(format) + ".from_" + source + ".rne_" + mode + ".u8.gz");
        try (InputStream in = new GZIPInputStream(Files.newInputStream(file))) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String nameOf(Float8Format format) {
        return format.name().toLowerCase(Locale.ROOT);
    }
}
