package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.trainer.kernel.Gemm;

/** The products there are on this machine. */
public final class Gemms {
    /** System property: {@code java} leaves the native library alone. */
    static final String PROPERTY = "octet.gemm";

    private Gemms() {}

    /** The fastest there is: oneDNN where it can be loaded, else Java, which is logged once with the reason. */
    public static Gemm best() {
        return Best.INSTANCE.gemm();
    }

    /** {@link #best}, with the reason when it is not the native library. */
    public static String text() {
        Choice best = Best.INSTANCE;
        return best.gemm().name() + (best.reason().isEmpty() ? "" : " (not oneDNN: " + best.reason() + ")");
    }

    /** @param reason why it is not the native library; empty when it is */
    private record Choice(Gemm gemm, String reason) {}

    /** Chosen when first asked. */
    private static final class Best {
        static final Choice INSTANCE = choose();

        private static Choice choose() {
            if (System.getProperty(PROPERTY, "").equals("java")) {
                return java("-D" + PROPERTY + "=java asks for it");
            }
            try {
                return new Choice(new OneDnnGemm(OneDnn.load(CacheFolder.path())), "");
            } catch (UnavailableException e) {
                return java(e.what());
            }
        }

        private static Choice java(String reason) {
            System.getLogger(Gemms.class.getName())
                    .log(System.Logger.Level.INFO, "matrix products in Java, slower than natively: {0}", reason);
            Gemm gemm = ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()
                    ? new VectorGemm()
                    : new PlainGemm();
            return new Choice(gemm, reason);
        }
    }
}
