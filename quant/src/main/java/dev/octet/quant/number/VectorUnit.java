package dev.octet.quant.number;

/** Whether code on {@code jdk.incubator.vector} can run in this JVM, and whether it pays on this processor. */
public final class VectorUnit {
    private static final boolean IN_JVM =
            ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent();

    private VectorUnit() {}

    /** Whether this JVM was started with the module. Without it, loading a class on vectors fails, so ask first. */
    public static boolean isInJvm() {
        return IN_JVM;
    }

    /**
     * Whether arithmetic on vectors is fast here. Without AVX2 Java has no instructions for comparing and choosing between elements of
     * vectors and for {@linkplain FusedMultiplyAdd fused products}: each vector becomes an object, and loops over single floats are
     * several times faster.
     */
    public static boolean pays() {
        return IN_JVM && FusedMultiplyAdd.inHardware();
    }
}
