package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.Gemm;

/** The products there are on this machine. */
public final class Gemms {
    /** System property: {@code java} leaves the native library alone. */
    static final String PROPERTY = "octet.gemm";

    private Gemms() {}

    /** The fastest there is: oneDNN where it can be loaded, else Java, which is logged once with the reason. */
    public static Gemm best() {
        return Best.INSTANCE;
    }

    /** Chosen when first asked. */
    private static final class Best {
        static final Gemm INSTANCE = choose();

        private static Gemm choose() {
            if (System.getProperty(PROPERTY, "").equals("java")) {
                return java("-D" + PROPERTY + "=java asks for it");
            }
            try {
                return new OneDnnGemm(OneDnn.load(NativeFiles.cacheFolder()));
            } catch (UnavailableException e) {
                return java(String.valueOf(e.getMessage()));
            }
        }

        private static Gemm java(String reason) {
            System.getLogger(Gemms.class.getName())
                    .log(System.Logger.Level.INFO, "matrix products in Java, slower than natively: {0}", reason);
            return ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()
                    ? new VectorGemm()
                    : new PlainGemm();
        }
    }
}
