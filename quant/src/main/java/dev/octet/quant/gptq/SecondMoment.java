package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import java.util.OptionalInt;

/**
 * {@code H = sum of x x^T} over the rows {@code x} of an activation, {@code [size, size]}, symmetric. It gives the cost of an error e in
 * the weight of a Linear layer with these inputs, {@code sum over rows of (x . e)^2 = e^T H e}. Not divided by the number of rows.
 *
 * <p><b>Accuracy.</b> The product of two F32 is exact in double precision; each element is the plain sum of its products in the order of
 * the rows, so its relative error is at most {@code rows * 2^-53} of the sum of their magnitudes.
 *
 * <p><b>Same bits.</b> The bits depend only on the sequence of rows, not on its split into calls, on the vector unit, or on saving ({@link
 * SecondMoments}) and resuming. {@link #merge} rounds once more per element, so merged moments equal those of a single run only up to that
 * rounding.
 *
 * <p><b>Memory.</b> {@code 4 size^2} bytes for the triangle and {@code 512 size} for buffered rows: 9.6 + 0.8 MiB for 1536 channels. Not
 * thread-safe; different moments may run on different threads.
 *
 * <p>NaN and infinities make their channels' sums non-finite; {@link #firstNonFinite} finds them.
 */
public final class SecondMoment {
    /** The largest number of channels: the triangle must fit in one array. */
    public static final int MAX_SIZE = LowerTriangle.MAX_SIZE;

    /** Buffered rows before their products are added, so that loading and storing a tile costs little in comparison. */
    private static final int BLOCK = 64;

    private final LowerTriangle layout;
    private final GptqTileKernel kernel;
    private final double[] sums;
    /** Rows that wait, 16 channels at a time: {@code [panels][BLOCK][16]}. Channels beyond the size stay 0. */
    private final double[] waiting;

    private final float[] row;
    private int waitingRows;
    private long rows;

    /**
     * A moment of no rows.
     *
     * @param size channels of a row, 1 to {@link #MAX_SIZE}
     * @throws IllegalArgumentException for another size
     */
    public SecondMoment(int size) {
        this(size, GptqTileKernel.best());
    }

    SecondMoment(int size, GptqTileKernel kernel) {
        this.layout = new LowerTriangle(size);
        this.kernel = kernel;
        this.sums = new double[layout.length()];
        this.waiting = new double[layout.paddedSize() * BLOCK];
        this.row = new float[size];
    }

    /** Channels of a row. */
    public int size() {
        return layout.size();
    }

    /** Number of rows added. */
    public long rows() {
        return rows;
    }

    /**
     * Takes in all rows between the buffer's position and limit; the buffer's state is not changed.
     *
     * @throws IllegalArgumentException when they are not a whole number of rows
     */
    public void add(FloatBuffer f32) {
        add(f32, everyRow(rowCount(f32.remaining())));
    }

    /**
     * Takes in the rows that are kept, between the buffer's position and limit; the buffer's state is not changed.
     *
     * @param kept bit {@code i} tells whether row {@code i} counts; padding has a cleared bit
     * @throws IllegalArgumentException when the elements are not a whole number of rows
     */
    public void add(FloatBuffer f32, BitSet kept) {
        int count = rowCount(f32.remaining());
        for (int i = kept.nextSetBit(0); i >= 0 && i < count; i = kept.nextSetBit(i + 1)) {
            f32.get(f32.position() + i * size(), row);
            enqueue();
        }
    }

    /**
     * Takes in all rows: little-endian F32, any alignment, on or off the heap.
     *
     * @throws IllegalArgumentException when the segment is not a whole number of rows
     */
    public void add(MemorySegment f32) {
        add(f32, size(), everyRow(rowCount(elements(f32))));
    }

    /**
     * Takes in the rows that are kept: little-endian F32, any alignment, on or off the heap.
     *
     * @param f32 rows of {@link #size} elements each, one after another
     * @param kept bit {@code i} tells whether row {@code i} counts; padding has a cleared bit
     * @throws IllegalArgumentException when the segment is not a whole number of rows
     */
    public void add(MemorySegment f32, BitSet kept) {
        add(f32, size(), kept);
    }

    /**
     * Takes in the rows of the stretches that are kept, where a stretch may have several rows (a token with several heads, or all of a
     * sample): little-endian F32, any alignment, on or off the heap.
     *
     * @param f32 rows of {@link #size} elements each, one after another
     * @param stretchLength elements of a stretch, a whole number of rows, at least one
     * @param kept bit {@code i} tells whether stretch {@code i} counts; padding has a cleared bit
     * @throws IllegalArgumentException when the segment is not a whole number of stretches or a stretch not a whole number of rows
     */
    public void add(MemorySegment f32, long stretchLength, BitSet kept) {
        long count = elements(f32);
        if (stretchLength < 1 || stretchLength % size() != 0 || count % stretchLength != 0) {
            throw new IllegalArgumentException(
                    count + " elements are not whole stretches of " + stretchLength + ", in rows of " + size());
        }
        int rowsOfStretch = rowCount(stretchLength);
        int stretches = Math.toIntExact(count / stretchLength);
        for (int i = kept.nextSetBit(0); i >= 0 && i < stretches; i = kept.nextSetBit(i + 1)) {
            for (int r = 0; r < rowsOfStretch; r++) {
                long offset = (i * stretchLength + (long) r * size()) * Float.BYTES;
                MemorySegment.copy(f32, Tensor.F32_LE, offset, row, 0, row.length);
                enqueue();
            }
        }
    }

    private static BitSet everyRow(int count) {
        BitSet all = new BitSet(count);
        all.set(0, count);
        return all;
    }

    private static long elements(MemorySegment f32) {
        if (f32.byteSize() % Float.BYTES != 0) {
            throw new IllegalArgumentException(f32.byteSize() + " bytes are not a whole number of F32 elements");
        }
        return f32.byteSize() / Float.BYTES;
    }

    private int rowCount(long elements) {
        if (elements % size() != 0) {
            throw new IllegalArgumentException(elements + " elements are not whole rows of " + size());
        }
        return Math.toIntExact(elements / size());
    }

    /** Lets {@link #row} wait with the others. */
    private void enqueue() {
        int channels = row.length;
        for (int first = 0; first < channels; first += TILE) {
            int to = first * BLOCK + waitingRows * TILE;
            int count = Math.min(TILE, channels - first);
            for (int c = 0; c < count; c++) {
                waiting[to + c] = row[first + c];
            }
        }
        rows++;
        waitingRows++;
        if (waitingRows == BLOCK) {
            flush();
        }
    }

    /** Adds the products of the rows that wait. */
    private void flush() {
        if (waitingRows == 0) {
            return;
        }
        for (int panel = 0; panel < layout.panels(); panel++) {
            for (int rowTile = panel; rowTile < layout.panels(); rowTile++) {
                kernel.accumulate(
                        waiting,
                        rowTile * TILE * BLOCK,
                        waiting,
                        panel * TILE * BLOCK,
                        waitingRows,
                        sums,
                        layout.tileStart(rowTile, panel));
            }
        }
        waitingRows = 0;
    }

    /**
     * Adds the rows of {@code other}, which does not change.
     *
     * @throws IllegalArgumentException when its rows have another size
     */
    public void merge(SecondMoment other) {
        if (other.size() != size()) {
            throw new IllegalArgumentException("moments of " + size() + " and of " + other.size() + " channels");
        }
        flush();
        other.flush();
        for (int i = 0; i < sums.length; i++) {
            sums[i] += other.sums[i];
        }
        rows = Math.addExact(rows, other.rows);
    }

    /**
     * One element of H.
     *
     * @throws IndexOutOfBoundsException outside {@code 0 .. size() - 1}
     */
    public double get(int i, int j) {
        Objects.checkIndex(i, size());
        Objects.checkIndex(j, size());
        flush();
        return sums[layout.index(Math.max(i, j), Math.min(i, j))];
    }

    /** The sums of squares of the channels; a copy. */
    public double[] diagonal() {
        flush();
        double[] diagonal = new double[size()];
        for (int i = 0; i < diagonal.length; i++) {
            diagonal[i] = sums[layout.index(i, i)];
        }
        return diagonal;
    }

    /** The mean of the sums of squares that are not zero; 1 without any. */
    double meanSquare() {
        return Arrays.stream(diagonal()).filter(d -> d > 0).average().orElse(1);
    }

    /**
     * The diagonal with a share of its mean added, as {@link Gptq} damps it, so that channels that few samples reached count a little.
     *
     * @param damping the share, 0 to 1
     */
    public double[] dampedDiagonal(double damping) {
        double added = damping * meanSquare();
        double[] diagonal = diagonal();
        for (int i = 0; i < diagonal.length; i++) {
            diagonal[i] += added;
        }
        return diagonal;
    }

    /**
     * The moment of the same rows with each channel divided by a number.
     *
     * @param factors one for each channel
     */
    public SecondMoment divided(double[] factors) {
        SecondMoment moment = new SecondMoment(size());
        double[] row = new double[size()];
        for (int i = 0; i < size(); i++) {
            copyRow(i, row);
            for (int j = 0; j <= i; j++) {
                row[j] /= factors[i] * factors[j];
            }
            moment.restoreRow(i, row);
        }
        moment.restoreRows(rows);
        return moment;
    }

    /** All of H: {@code 8 size^2} bytes. */
    public double[][] matrix() {
        double[][] h = new double[size()][size()];
        for (int i = 0; i < h.length; i++) {
            copyRow(i, h[i]);
            for (int j = 0; j < i; j++) {
                h[j][i] = h[i][j];
            }
        }
        return h;
    }

    /**
     * The moment with these numbers.
     *
     * @param h square; of its upper triangle nothing is read
     * @param rows that it is the sum of
     */
    public static SecondMoment of(double[][] h, long rows) {
        SecondMoment moment = new SecondMoment(h.length);
        for (int i = 0; i < h.length; i++) {
            moment.restoreRow(i, h[i]);
        }
        moment.restoreRows(rows);
        return moment;
    }

    /**
     * The costs {@code e^T H e} of several vectors: of the errors in some rows of a weight, or of the rows themselves. In double precision.
     *
     * @param vectors each of {@link #size} elements
     * @throws IllegalArgumentException for another length
     */
    public double[] costs(List<float[]> vectors) {
        double[][] channels = new double[size()][vectors.size()];
        for (int v = 0; v < vectors.size(); v++) {
            float[] e = vectors.get(v);
            if (e.length != size()) {
                throw new IllegalArgumentException("a vector of " + e.length + " for " + size() + " channels");
            }
            for (int i = 0; i < e.length; i++) {
                channels[i][v] = e[i];
            }
        }
        return costs(channels);
    }

    /**
     * The same of vectors that lie side by side, so that H is read once for all of them. Threads may ask at the same time once one has, as long as no rows are added.
     *
     * @param channels {@code [size][vectors]}
     */
    public double[] costs(double[][] channels) {
        int count = channels[0].length;
        double[] costs = new double[count];
        double[] product = new double[count];
        double[] h = new double[size()];
        for (int i = 0; i < h.length; i++) {
            copyRow(i, h);
            Arrays.fill(product, 0);
            for (int j = 0; j < i; j++) {
                double twice = 2 * h[j];
                double[] e = channels[j];
                for (int v = 0; v < count; v++) {
                    product[v] += twice * e[v];
                }
            }
            double[] e = channels[i];
            for (int v = 0; v < count; v++) {
                costs[v] += e[v] * (product[v] + h[i] * e[v]);
            }
        }
        return costs;
    }

    /** The first channel with a NaN or an infinity in a row, or with an overflow of its squares. */
    public OptionalInt firstNonFinite() {
        double[] diagonal = diagonal();
        for (int i = 0; i < diagonal.length; i++) {
            if (!Double.isFinite(diagonal[i])) {
                return OptionalInt.of(i);
            }
        }
        return OptionalInt.empty();
    }

    /** Number of elements of the lower triangle including the diagonal. */
    static long triangleLength(long size) {
        return size * (size + 1) / 2;
    }

    /** Writes row {@code i} of the lower triangle: elements {@code (i, 0) .. (i, i)}. */
    void copyRow(int i, double[] to) {
        flush();
        for (int j = 0; j <= i; j++) {
            to[j] = sums[layout.index(i, j)];
        }
    }

    /** Sets row {@code i} of the lower triangle of a moment that is being read. */
    void restoreRow(int i, double[] from) {
        for (int j = 0; j <= i; j++) {
            sums[layout.index(i, j)] = from[j];
        }
        // The upper half of diagonal tiles is summed too; it is never read, but must not differ after resuming.
        for (int j = i - i % TILE; j < i; j++) {
            sums[layout.index(j, i)] = from[j];
        }
    }

    /** Sets the number of rows of a moment that is being read. */
    void restoreRows(long count) {
        rows = count;
    }
}
