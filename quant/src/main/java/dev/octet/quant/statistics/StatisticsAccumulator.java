package dev.octet.quant.statistics;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.FloatBuffer;
import java.util.BitSet;

/**
 * Takes in the elements of one tensor, batch by batch, in constant memory (about 90 KiB). Not thread-safe; different tensors'
 * accumulators may run on different threads.
 *
 * <p>The result depends only on the sequence of {@code add} calls, not on time or threads: an accumulator that continues from a
 * snapshot ends with the very bits of one that was never stopped.
 */
public final class StatisticsAccumulator {
    /** Elements looked at together: 16 KiB, so that the passes over a tile stay in the first-level cache. */
    private static final int TILE = 4096;

    /** Elements after which the 32-bit counts go into the 64-bit ones at the latest. */
    private static final int FLUSH_EVERY = 1 << 30;

    private static final int ABS = 0x7FFFFFFF;
    private static final int INFINITY = 0x7F800000;
    /** Order keys (see {@link #orderKey}) of +infinity and -infinity: what lies strictly between is finite. */
    private static final int POSITIVE_INFINITY_KEY = INFINITY;

    private static final int NEGATIVE_INFINITY_KEY = ~INFINITY;

    private final int[] tile = new int[TILE];
    /** Two histograms of 12-bit prefixes, so that two neighbours in one bin do not wait for each other's store. */
    private final int[] even = new int[LogHistogram.BIN_COUNT];

    private final int[] odd = new int[LogHistogram.BIN_COUNT];

    private final long[] bins;
    private long count;
    private long zeros;
    private long nans;
    private long infinities;
    private int minKey = Integer.MAX_VALUE;
    private int maxKey = Integer.MIN_VALUE;
    private double sumOfSquares;
    private int unflushed;

    /** An accumulator that has seen nothing. */
    public StatisticsAccumulator() {
        this(TensorStatistics.EMPTY);
    }

    /** An accumulator that continues from {@code seen}. */
    public StatisticsAccumulator(TensorStatistics seen) {
        bins = seen.histogram().toArray();
        count = seen.count();
        zeros = seen.zeros();
        nans = seen.nans();
        infinities = seen.infinities();
        sumOfSquares = seen.sumOfSquares();
        if (seen.finiteCount() > 0) {
            minKey = orderKey(Float.floatToRawIntBits(seen.min()));
            maxKey = orderKey(Float.floatToRawIntBits(seen.max()));
        }
    }

    /** Takes in all elements between the buffer's position and limit; the buffer's state is not changed. */
    public void add(FloatBuffer f32) {
        add(MemorySegment.ofBuffer(f32));
    }

    /** Takes in all elements: little-endian F32, any alignment, on or off the heap. */
    public void add(MemorySegment f32) {
        addRun(f32, 0, elements(f32));
        flush();
    }

    /**
     * Takes in the elements of the rows that are kept.
     *
     * @param f32 rows of {@code rowLength} elements each, one after another
     * @param rowLength elements of a row (the innermost axis), at least 1
     * @param kept bit {@code i} tells whether row {@code i} counts; padding has a cleared bit
     * @throws IllegalArgumentException when the elements are not a whole number of rows
     */
    public void add(MemorySegment f32, long rowLength, BitSet kept) {
        long n = elements(f32);
        if (rowLength < 1 || n % rowLength != 0) {
            throw new IllegalArgumentException(n + " elements are not whole rows of " + rowLength);
        }
        int rows = Math.toIntExact(n / rowLength);
        for (int row = kept.nextSetBit(0); row >= 0 && row < rows; ) {
            int end = Math.min(kept.nextClearBit(row), rows);
            addRun(f32, row * rowLength, end * rowLength);
            row = kept.nextSetBit(end);
        }
        flush();
    }

    private static long elements(MemorySegment f32) {
        if (f32.byteSize() % Float.BYTES != 0) {
            throw new IllegalArgumentException(f32.byteSize() + " bytes are not a whole number of F32 elements");
        }
        return f32.byteSize() / Float.BYTES;
    }

    private void addRun(MemorySegment f32, long from, long to) {
        for (long i = from; i < to; i += TILE) {
            int n = (int) Math.min(TILE, to - i);
            MemorySegment.copy(f32, Tensor.I32_LE, i * Float.BYTES, tile, 0, n);
            count += n;
            addTile(n);
            unflushed += n;
            if (unflushed > FLUSH_EVERY) {
                flush();
            }
        }
    }

    private void addTile(int n) {
        if (!addRange(tile, n)) {
            int finite = dropNonFinite(n);
            addRange(tile, finite);
            addFinite(finite);
        } else {
            addFinite(n);
        }
    }

    private void addFinite(int n) {
        zeros += addMagnitudes(tile, n, even, odd);
        sumOfSquares += sumOfSquares(tile, n);
    }

    /** Widens the range by {@code n} elements, unless one of them is not finite: then nothing changes and false comes back. */
    private boolean addRange(int[] t, int n) {
        int least = Integer.MAX_VALUE;
        int greatest = Integer.MIN_VALUE;
        for (int i = 0; i < n; i++) {
            int key = orderKey(t[i]);
            least = Math.min(least, key);
            greatest = Math.max(greatest, key);
        }
        if (n > 0 && (greatest >= POSITIVE_INFINITY_KEY || least <= NEGATIVE_INFINITY_KEY)) {
            return false;
        }
        minKey = Math.min(minKey, least);
        maxKey = Math.max(maxKey, greatest);
        return true;
    }

    /** Bits of a float as an integer that orders like the float; its own inverse. NaNs lie beyond the infinities. */
    private static int orderKey(int bits) {
        return bits ^ ((bits >> 31) & ABS);
    }

    /** Moves the finite elements to the front, counts the others; how many are finite. */
    private int dropNonFinite(int n) {
        int finite = 0;
        for (int i = 0; i < n; i++) {
            int abs = tile[i] & ABS;
            if (abs < INFINITY) {
                tile[finite++] = tile[i];
            } else if (abs == INFINITY) {
                infinities++;
            } else {
                nans++;
            }
        }
        return finite;
    }

    /** Counts finite elements (zeros land in bin 0, from where {@link #flush} takes them); how many are zero. */
    private static int addMagnitudes(int[] t, int n, int[] even, int[] odd) {
        int zero = 0;
        for (int i = 0; i < n; i++) {
            zero += ((t[i] & ABS) - 1) >>> 31; // 1 for zero only
        }
        int i = 0;
        for (; i < n - 1; i += 2) {
            even[(t[i] & ABS) >>> LogHistogram.SHIFT]++;
            odd[(t[i + 1] & ABS) >>> LogHistogram.SHIFT]++;
        }
        if (i < n) {
            even[(t[i] & ABS) >>> LogHistogram.SHIFT]++;
        }
        even[0] -= zero;
        return zero;
    }

    /** In four partial sums: one would wait for each addition (four cycles). The order is fixed, so the bits are too. */
    private static double sumOfSquares(int[] t, int n) {
        double s0 = 0;
        double s1 = 0;
        double s2 = 0;
        double s3 = 0;
        int i = 0;
        for (; i < n - 3; i += 4) {
            double x0 = Float.intBitsToFloat(t[i]);
            double x1 = Float.intBitsToFloat(t[i + 1]);
            double x2 = Float.intBitsToFloat(t[i + 2]);
            double x3 = Float.intBitsToFloat(t[i + 3]);
            s0 += x0 * x0;
            s1 += x1 * x1;
            s2 += x2 * x2;
            s3 += x3 * x3;
        }
        for (; i < n; i++) {
            double x = Float.intBitsToFloat(t[i]);
            s0 += x * x;
        }
        return (s0 + s1) + (s2 + s3);
    }

    /** Moves the 32-bit counts into the 64-bit ones. */
    private void flush() {
        for (int b = 0; b < bins.length; b++) {
            bins[b] += even[b] + (long) odd[b];
            even[b] = 0;
            odd[b] = 0;
        }
        unflushed = 0;
    }

    /** What was seen so far. */
    public TensorStatistics snapshot() {
        boolean finite = count > nans + infinities;
        return new TensorStatistics(
                count,
                zeros,
                nans,
                infinities,
                finite ? Float.intBitsToFloat(orderKey(minKey)) : 0,
                finite ? Float.intBitsToFloat(orderKey(maxKey)) : 0,
                sumOfSquares,
                LogHistogram.of(bins));
    }
}
