package dev.octet.quant.statistics;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/**
 * Takes in the elements of one tensor, batch by batch, in constant memory (about 180 KiB, and 32 bytes for each channel). Not thread-safe; different tensors'
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
    /** Prefixes of sign, exponent and four bits of the mantissa: bins of positive numbers, then those of negative ones. */
    private static final int PREFIXES = 1 << 13;

    private static final int NEGATIVE = PREFIXES / 2;
    private static final int NEGATIVE_ZERO = 1 << 31;

    /** Two histograms of prefixes, so that two neighbours in one bin do not wait for each other's store. */
    private final int[] even = new int[PREFIXES];

    private final int[] odd = new int[PREFIXES];

    private final long[] bins;
    /** Null when it goes on from statistics without them. */
    private final long @Nullable [] negativeBins;

    private @Nullable ChannelAccumulator channels;
    private @Nullable ChannelAccumulator heads;
    private float[] row = new float[0];
    private final boolean seenBefore;
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

    /** An accumulator that continues from {@code seen}; of channels and heads where they were taken before. */
    public StatisticsAccumulator(TensorStatistics seen) {
        bins = seen.histogram().toArray();
        LogHistogram negatives = seen.negatives();
        negativeBins = negatives == null ? null : negatives.toArray();
        ChannelStatistics ofChannels = seen.channels();
        channels = ofChannels == null ? null : new ChannelAccumulator(ofChannels.size(), ofChannels);
        ChannelStatistics ofHeads = seen.heads();
        heads = ofHeads == null ? null : new ChannelAccumulator(ofHeads.size(), ofHeads);
        count = seen.count();
        seenBefore = count > 0;
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

    /**
     * Takes in the elements of the rows that are kept, and statistics of each channel of the last axis.
     *
     * @param f32 rows of {@code rowLength} elements each, one after another
     * @param rowLength elements of a row, a whole number of times {@code size}
     * @param kept as for {@link #add(MemorySegment, long, BitSet)}
     * @param size channels, the same in each call
     * @throws IllegalArgumentException when the elements are not a whole number of rows or of channels, or there were other channels
     */
    public void addWithChannels(MemorySegment f32, long rowLength, BitSet kept, int size) {
        if (size < 1 || rowLength % size != 0) {
            throw new IllegalArgumentException("rows of " + rowLength + " elements are not of " + size + " channels");
        }
        add(f32, rowLength, kept);
        if (isLate(channels)) {
            return;
        }
        ChannelAccumulator to = accumulator(channels, size);
        channels = to;
        int rows = Math.toIntExact(elements(f32) / rowLength);
        for (int i = kept.nextSetBit(0); i >= 0 && i < rows; i = kept.nextSetBit(i + 1)) {
            for (long at = i * rowLength; at < (i + 1L) * rowLength; at += size) {
                if (loadRow(f32, at, size)) {
                    to.addRow(row, 0);
                }
            }
        }
    }

    /**
     * Takes in the elements of the rows that are kept of a value {@code [batch, heads, length, size]}, and statistics of each head. A token
     * counts for all heads or for none.
     *
     * @param f32 the value
     * @param kept rows of {@code size} elements; bit {@code (sample * heads + head) * length + token}
     * @param shape heads, length and size
     * @throws IllegalArgumentException when the elements do not fit the shape, or there was another number of heads
     */
    public void addWithHeads(MemorySegment f32, BitSet kept, HeadShape shape) {
        add(f32, shape.size, kept);
        if (isLate(heads)) {
            return;
        }
        ChannelAccumulator to = accumulator(heads, shape.heads);
        heads = to;
        long perSample = (long) shape.heads * shape.length;
        int samples = Math.toIntExact(elements(f32) / (perSample * shape.size));
        for (int sample = 0; sample < samples; sample++) {
            for (int token = 0; token < shape.length; token++) {
                long first = sample * perSample + token;
                if (kept.get(Math.toIntExact(first)) && allFinite(f32, first, shape)) {
                    for (int head = 0; head < shape.heads; head++) {
                        loadRow(f32, (first + (long) head * shape.length) * shape.size, shape.size);
                        to.addTo(head, row, 0, shape.size);
                    }
                    to.counted(shape.size);
                }
            }
        }
    }

    /**
     * Takes in the elements of the tokens that are kept of a value {@code [batch, length, heads * size]}, whose heads lie side by side, and
     * statistics of each head. A token counts for all heads or for none.
     *
     * @param f32 rows of {@code rowLength} elements each, one after another
     * @param rowLength elements of a row, a whole number of tokens
     * @param kept as for {@link #add(MemorySegment, long, BitSet)}
     * @param heads how many, the same in each call
     * @param size elements of a head
     * @throws IllegalArgumentException when the elements are not a whole number of rows or of tokens, or there was another number of heads
     */
    public void addWithJoinedHeads(MemorySegment f32, long rowLength, BitSet kept, int heads, int size) {
        int width = Math.multiplyExact(heads, size);
        if (width < 1 || rowLength % width != 0) {
            throw new IllegalArgumentException(
                    "rows of " + rowLength + " elements are not of " + heads + " heads of " + size);
        }
        add(f32, rowLength, kept);
        if (isLate(this.heads)) {
            return;
        }
        ChannelAccumulator to = accumulator(this.heads, heads);
        this.heads = to;
        int rows = Math.toIntExact(elements(f32) / rowLength);
        for (int i = kept.nextSetBit(0); i >= 0 && i < rows; i = kept.nextSetBit(i + 1)) {
            for (long at = i * rowLength; at < (i + 1L) * rowLength; at += width) {
                if (loadRow(f32, at, width)) {
                    for (int head = 0; head < heads; head++) {
                        to.addTo(head, row, head * size, size);
                    }
                    to.counted(size);
                }
            }
        }
    }

    /**
     * The axes of a query, key or value after the batch.
     *
     * @param heads how many
     * @param length tokens
     * @param size elements of a head
     */
    public record HeadShape(int heads, int length, int size) {
        public HeadShape {
            if (heads < 1 || length < 1 || size < 1) {
                throw new IllegalArgumentException("heads " + heads + ", length " + length + ", size " + size);
            }
        }
    }

    private boolean allFinite(MemorySegment f32, long first, HeadShape shape) {
        boolean finite = true;
        for (int head = 0; head < shape.heads && finite; head++) {
            finite = loadRow(f32, (first + (long) head * shape.length) * shape.size, shape.size);
        }
        return finite;
    }

    /** Whether earlier samples, by another version, had none of these: of a part of the samples only, they would mislead. */
    private boolean isLate(@Nullable ChannelAccumulator known) {
        return known == null && seenBefore;
    }

    private static ChannelAccumulator accumulator(@Nullable ChannelAccumulator known, int size) {
        if (known != null && known.size() != size) {
            throw new IllegalArgumentException("there were " + known.size() + " channels, now there are " + size);
        }
        return known == null ? new ChannelAccumulator(size, null) : known;
    }

    /** Copies elements from {@code at} on to the row; whether all are finite. */
    private boolean loadRow(MemorySegment f32, long at, int n) {
        if (row.length < n) {
            row = new float[n];
        }
        MemorySegment.copy(f32, Tensor.F32_LE, at * Float.BYTES, row, 0, n);
        int greatest = 0;
        for (int i = 0; i < n; i++) {
            greatest = Math.max(greatest, Float.floatToRawIntBits(row[i]) & ABS);
        }
        return greatest < INFINITY;
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

    /** Counts finite elements (zeros land in bin 0, and are taken out at once); how many are zero. */
    private static int addMagnitudes(int[] t, int n, int[] even, int[] odd) {
        int zero = 0;
        int negativeZero = 0;
        for (int i = 0; i < n; i++) {
            zero += ((t[i] & ABS) - 1) >>> 31; // 1 for zero only
            negativeZero += t[i] == NEGATIVE_ZERO ? 1 : 0;
        }
        int i = 0;
        for (; i < n - 1; i += 2) {
            even[t[i] >>> LogHistogram.SHIFT]++;
            odd[t[i + 1] >>> LogHistogram.SHIFT]++;
        }
        if (i < n) {
            even[t[i] >>> LogHistogram.SHIFT]++;
        }
        even[0] -= zero - negativeZero;
        even[NEGATIVE] -= negativeZero;
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
            long negative = even[NEGATIVE + b] + (long) odd[NEGATIVE + b];
            bins[b] += even[b] + (long) odd[b] + negative;
            if (negativeBins != null) {
                negativeBins[b] += negative;
            }
        }
        Arrays.fill(even, 0);
        Arrays.fill(odd, 0);
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
                LogHistogram.of(bins),
                negativeBins == null ? null : LogHistogram.of(negativeBins),
                channels == null ? null : channels.snapshot(),
                heads == null ? null : heads.snapshot());
    }
}
