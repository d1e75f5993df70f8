package dev.octet.quant.number;

/**
 * {@code a·b + c} rounded once, fast also on processors without such an instruction (x86-64 before AVX2, and virtual machines that do
 * not pass it on). There {@link Math#fma(float, float, float)} computes with decimal numbers, a thousand times slower, and so do the
 * vectors of {@code jdk.incubator.vector}.
 */
public final class FusedMultiplyAdd {
    /** Operations of one trial. */
    private static final int OPERATIONS = 32;

    /** Nanoseconds of a trial: with the instruction 500, interpreted; with decimal numbers 500,000. */
    private static final long LIMIT = 20_000;

    private static final int TRIALS = 4;

    private static final boolean IN_HARDWARE = inTime();

    private FusedMultiplyAdd() {}

    /** Whether the processor has the instruction and this Java uses it. Without, vectors must not ask for it. */
    public static boolean inHardware() {
        return IN_HARDWARE;
    }

    /** {@code a·b + c} rounded once: the bits of {@link Math#fma(float, float, float)}, except which NaN a NaN is. */
    public static float of(float a, float b, float c) {
        return IN_HARDWARE ? Math.fma(a, b, c) : inDouble(a, b, c);
    }

    /**
     * The product of two floats is exact as a double. The sum is rounded to odd: where it is inexact its last bit is set, so that
     * rounding it again, to a float, is right (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
     */
    static float inDouble(float a, float b, float c) {
        double product = (double) a * b;
        double sum = product + c;
        // what the addition lost (Knuth's TwoSum); NaN where something is infinite, and then nothing is to be mended
        double part = sum - product;
        double lost = (product - (sum - part)) + (c - part);
        long bits = Double.doubleToRawLongBits(sum);
        if ((bits & 1) == 0 && (lost > 0 || lost < 0)) {
            // away from zero if the exact sum is farther from it than the rounded one
            sum = Double.longBitsToDouble(bits + ((lost > 0) == (sum > 0) ? 1 : -1));
        }
        return (float) sum;
    }

    private static boolean inTime() {
        float sum = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            long start = System.nanoTime();
            for (int i = 0; i < OPERATIONS; i++) {
                sum = Math.fma(0.5f, sum, 1f);
            }
            if (System.nanoTime() - start < LIMIT && sum > 0) {
                return true;
            }
        }
        return false;
    }
}
