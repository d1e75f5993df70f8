package dev.octet.quant.number;

/**
 * {@code a·b + c} rounded once, fast even on processors without an FMA instruction (x86-64 before AVX2, and virtual machines that hide it).
 * There, {@link Math#fma(float, float, float)} computes with decimal numbers, a thousand times slower, and so do the vectors of {@code
 * jdk.incubator.vector}.
 */
public final class FusedMultiplyAdd {
    /** Operations of one trial. */
    private static final int OPERATIONS = 32;

    /** Nanoseconds of a trial: with the instruction 500, interpreted; with decimal numbers 500,000. */
    private static final long LIMIT = 20_000;

    private static final int TRIALS = 4;

    /** Between these, products and their lost parts neither overflow nor become subnormal. */
    private static final double SMALLEST = 0x1p-800;

    private static final double LARGEST = 0x1p800;

    /** Cuts a double of 53 bits into two of 26. */
    private static final double SPLITTER = 0x1p27 + 1;

    private static final boolean IN_HARDWARE = inTime();

    private FusedMultiplyAdd() {}

    /** Whether the processor has the instruction and this Java uses it. If not, vector code must not use it. */
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

    /** {@code a·b + c} rounded once: the bits of {@link Math#fma(double, double, double)}, except which NaN a NaN is. */
    public static double of(double a, double b, double c) {
        return IN_HARDWARE ? Math.fma(a, b, c) : inParts(a, b, c);
    }

    /**
     * Splits product and sums without loss, adds the small parts with rounding to odd, and adds the result to the large part, which then
     * rounds like the exact sum (Boldo and Melquiond, as above, theorem 5). Valid only far from the ends of the range; near them, which
     * sums over data never are, Java's decimal numbers compute.
     */
    static double inParts(double a, double b, double c) {
        double product = a * b;
        double magnitude = Math.abs(product);
        if (!(magnitude > SMALLEST && magnitude < LARGEST)
                || Math.abs(a) > LARGEST
                || Math.abs(b) > LARGEST
                || Math.abs(c) > LARGEST) {
            return a == 0 || b == 0 ? product + c : Math.fma(a, b, c);
        }
        // Dekker's product of Veltkamp's halves
        double splitA = SPLITTER * a;
        double splitB = SPLITTER * b;
        double highA = splitA - (splitA - a);
        double highB = splitB - (splitB - b);
        double lowA = a - highA;
        double lowB = b - highB;
        double lostInProduct = lowA * lowB - (((product - highA * highB) - lowA * highB) - highA * lowB);
        double low = c + lostInProduct;
        double part = low - c;
        double lostInLow = (c - (low - part)) + (lostInProduct - part);
        double high = product + low;
        part = high - product;
        double lostInHigh = (product - (high - part)) + (low - part);
        return high + sumToOdd(lostInHigh, lostInLow);
    }

    /** {@code x + y}, inexact sums rounded to the one of the two doubles around them whose last bit is set. */
    private static double sumToOdd(double x, double y) {
        double sum = x + y;
        double part = sum - x;
        double lost = (x - (sum - part)) + (y - part);
        long bits = Double.doubleToRawLongBits(sum);
        long lostBits = Double.doubleToRawLongBits(lost);
        // without branches, which would be guessed wrong every second time: 1 where something was lost and the last bit
        // is not set
        long magnitude = lostBits << 1;
        long inexact = ((magnitude | -magnitude) >>> (Long.SIZE - 1)) & ~bits;
        // away from zero if what was lost has the sign of the sum
        long away = ((lostBits ^ bits) >> (Long.SIZE - 1)) | 1;
        return Double.longBitsToDouble(bits + inexact * away);
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
