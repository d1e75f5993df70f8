package dev.octet.converter.compare;

import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The upper left corner of a weight's first matrix, up to 128 rows of 1024 columns, with the largest magnitudes of the full rows.
 */
final class Sample {
    private static final int ROWS = 128;
    private static final int COLS = 1024;

    /** Longest row that is read in full to find its largest magnitude. */
    private static final long LONGEST_ROW = 1 << 17;

    private final int rows;
    private final int cols;
    private final float[] values;
    private final float[] multipliers;
    private final float[] rowAmax;

    private Sample(int rows, int cols, boolean quantized) {
        this.rows = rows;
        this.cols = cols;
        this.values = new float[rows * cols];
        this.multipliers = new float[quantized ? rows * cols : 0];
        this.rowAmax = new float[rows];
    }

    /** Reads the sample of a weight; its multipliers too when it is quantised. */
    static Sample of(Weight weight) throws IOException {
        Elements elements = weight.elements();
        long allCols = elements.cols();
        boolean empty = elements.count() == 0;
        int rows = empty ? 0 : (int) Math.min(ROWS, elements.rowsOfMatrix());
        int cols = empty ? 0 : (int) Math.min(COLS, allCols);
        Sample sample = new Sample(rows, cols, weight.grid().quantized());
        if (empty) {
            return sample;
        }
        // a side without alignment reads only the sampled elements
        long width = elements.rowAlignment() == 0 && allCols > LONGEST_ROW ? cols : allCols;
        try (Arena arena = Arena.ofConfined()) {
            int step = elements.rowAlignment() == 0 || elements.rowAlignment() == 1 ? 1 : rows;
            if (elements instanceof TransposedElements) {
                step = rows;
            }
            MemorySegment buffer = arena.allocate(step * width * Float.BYTES, 64);
            for (int row = 0; row < rows; row += step) {
                elements.read(row * allCols, row * allCols + (step - 1) * allCols + width, buffer);
                sample.keep(buffer, row, step, width, sample.values, true);
                if (weight.grid().quantized()) {
                    elements.readMultipliers(row * allCols, (row + step) * allCols, buffer);
                    sample.keep(buffer, row, step, width, sample.multipliers, false);
                }
            }
        }
        return sample;
    }

    private void keep(MemorySegment buffer, int row, int count, long width, float[] target, boolean amax) {
        for (int r = 0; r < count; r++) {
            long start = r * width;
            MemorySegment.copy(buffer, Tensor.F32_LE, start * Float.BYTES, target, (row + r) * cols, cols);
            for (long c = 0; amax && c < width; c++) {
                float x = Math.abs(buffer.get(Tensor.F32_LE, (start + c) * Float.BYTES));
                rowAmax[row + r] = Math.max(rowAmax[row + r], x);
            }
        }
    }

    int rows() {
        return rows;
    }

    int cols() {
        return cols;
    }

    /** Number of elements. */
    int size() {
        return values.length;
    }

    /** Element {@code i}, row-major. */
    float value(int i) {
        return values[i];
    }

    /** The multiplier of element {@code i}; 1 when the weight is not quantised. */
    float multiplier(int i) {
        return multipliers.length == 0 ? 1 : multipliers[i];
    }

    /** All elements, row-major; read-only. */
    float[] values() {
        return values;
    }

    /** For each element the largest magnitude of its full row. */
    float[] rowAmax() {
        float[] amax = new float[values.length];
        for (int i = 0; i < amax.length; i++) {
            amax[i] = rowAmax[i / cols];
        }
        return amax;
    }

    /** For each element the largest magnitude of its box; boxes start at the origin, and the sample's border cuts them. */
    float[] boxAmax(int boxRows, int boxCols) {
        int across = Math.ceilDiv(Math.max(1, cols), boxCols);
        float[] boxes = new float[across * Math.ceilDiv(Math.max(1, rows), boxRows)];
        for (int i = 0; i < values.length; i++) {
            int box = box(i, boxRows, boxCols, across);
            boxes[box] = Math.max(boxes[box], Math.abs(values[i]));
        }
        float[] amax = new float[values.length];
        for (int i = 0; i < amax.length; i++) {
            amax[i] = boxes[box(i, boxRows, boxCols, across)];
        }
        return amax;
    }

    private int box(int i, int boxRows, int boxCols, int across) {
        return i / cols / boxRows * across + i % cols / boxCols;
    }
}
