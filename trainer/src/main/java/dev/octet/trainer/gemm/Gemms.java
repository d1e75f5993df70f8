package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.VectorUnit;
import dev.octet.trainer.kernel.MatrixProducts;
import java.nio.file.Path;
import java.util.Locale;

/** The implementations of matrix products on this machine. */
public final class Gemms {
    /** System property; the value {@code java} disables the native library. */
    static final String PROPERTY = "octet.gemm";

    private Gemms() {}

    /** The fastest available: oneDNN if it can be loaded, else Java; the reason for Java is logged once. */
    public static MatrixProducts best() {
        return Best.INSTANCE.gemm();
    }

    /** Name of {@link #best}, its route for each type, and the reason if it is not the native library. */
    public static String text() {
        return Best.INSTANCE.text();
    }

    private record Choice(MatrixProducts gemm, String text) {}

    /** Chosen on first use. */
    private static final class Best {
        static final Choice INSTANCE = choose();

        private static Choice choose() {
            if (System.getProperty(PROPERTY, "").equals("java")) {
                return java("-D" + PROPERTY + "=java asks for it");
            }
            try {
                Path folder = OneDnn.unpack(CacheFolder.path());
                Rates rates = GemmTrial.rates(CacheFolder.path(), folder);
                if (rates.best(DType.F32) == Route.JAVA) {
                    return java(String.format(
                            Locale.ROOT,
                            "it does %.1f billion multiplications and additions a second here, Java %.1f",
                            rates.of(DType.F32, Route.GEMM),
                            rates.of(DType.F32, Route.JAVA)));
                }
                OneDnnGemm gemm = new OneDnnGemm(OneDnn.load(folder), rates);
                return new Choice(gemm, gemm.text());
            } catch (UnavailableException e) {
                return java(e.what() + " (" + e.where() + ": " + e.fix() + ")");
            }
        }

        private static Choice java(String reason) {
            System.getLogger(Gemms.class.getName())
                    .log(System.Logger.Level.INFO, "matrix products in Java, slower than natively: {0}", reason);
            MatrixProducts gemm = VectorUnit.isInJvm() ? new VectorGemm() : new PlainGemm();
            return new Choice(gemm, gemm.name() + " (not oneDNN: " + reason + ")");
        }
    }
}
