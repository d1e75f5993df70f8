package dev.octet.converter.compare;

import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** 256 elements of a matrix, at the crossings of 16 rows and 16 columns, which distinguish matrices without reading all of them. */
final class ContentSample {
    private static final int SIDE = 16;

    private ContentSample() {}

    /**
     * The elements of {@code weight}, of two axes, that lie where those of another lie which it is compared with.
     *
     * @param transposed whether to give those of the transposed matrix
     */
    static float[] of(Weight weight, boolean transposed) throws IOException {
        long rows = weight.shape().dim(0);
        long cols = weight.shape().dim(1);
        float[] sample = new float[SIDE * SIDE];
        if (rows == 0 || cols == 0) {
            return sample;
        }
        Elements elements = weight.elements();
        long alignment = Math.max(1, elements.rowAlignment());
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(Math.min(rows, alignment) * cols * Float.BYTES, 64);
            for (int r = 0; r < SIDE; r++) {
                long row = place(r, rows);
                long first = row / alignment * alignment;
                long end = Math.min(rows, first + alignment);
                elements.read(first * cols, end * cols, buffer.asSlice(0, (end - first) * cols * Float.BYTES));
                for (int c = 0; c < SIDE; c++) {
                    long at = (row - first) * cols + place(c, cols);
                    float x = buffer.get(Tensor.F32_LE, at * Float.BYTES);
                    sample[transposed ? c * SIDE + r : r * SIDE + c] = x;
                }
            }
        }
        return sample;
    }

    /** The {@code i}th of 16 places among {@code size}; the same for rows as for columns, so that it does not matter which they are. */
    private static long place(int i, long size) {
        return (long) ((i + 0.37) * size / SIDE);
    }

    /** Cosine of the angle between two samples over pairs of finite numbers; 0 when one vanishes or is of another length. */
    static double cosine(float[] a, float[] b) {
        double aa = 0;
        double bb = 0;
        double ab = 0;
        for (int i = 0; i < a.length && a.length == b.length; i++) {
            if (Float.isFinite(a[i]) && Float.isFinite(b[i])) {
                aa += (double) a[i] * a[i];
                bb += (double) b[i] * b[i];
                ab += (double) a[i] * b[i];
            }
        }
        return aa == 0 || bb == 0 ? 0 : ab / (Math.sqrt(aa) * Math.sqrt(bb));
    }
}
