package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.MatrixProducts;
import java.nio.file.Path;
import java.util.Locale;

/** The products there are on this machine. */
public final class Gemms {
    /** System property: {@code java} leaves the native library alone. */
    static final String PROPERTY = "octet.gemm";

    private Gemms() {}

    /** The fastest there is: oneDNN where it can be loaded, else Java, which is logged once with the reason. */
    public static MatrixProducts best() {
        return Best.INSTANCE.gemm();
    }

    /** {@link #best}, how it multiplies each type, and the reason when it is not the native library. */
    public static String text() {
        return Best.INSTANCE.text();
    }

    /** Whether {@link VectorGemm} can be loaded. */
    static boolean hasVectors() {
        return ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent();
    }

    private record Choice(MatrixProducts gemm, String text) {}

    /** Chosen when first asked. */
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
            MatrixProducts gemm = hasVectors() ? new VectorGemm() : new PlainGemm();
            return new Choice(gemm, gemm.name() + " (not oneDNN: " + reason + ")");
        }
    }
}
