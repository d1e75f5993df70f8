package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;

/** What goes with products: a row added to all rows before, the sum of all rows behind. */
public final class Rows {
    /** Columns summed by one piece: a kilobyte of F32 of each row. */
    private static final int PANEL = 256;

    /** Rows summed before the sum joins the others: the error of a sum grows with its number of terms. */
    private static final int GROUP = 32;

    private Rows() {}

    /** Fills every row of {@code y} [rows, n] with {@code row} [n]. */
    public static void fill(CpuTensor y, CpuTensor row, int rows, int n, Parallel parallel) {
        float[] values = new float[n];
        row.read(0, values, 0, n);
        long grain = Math.max(1, 16_384 / Math.max(1, n));
        parallel.ranges(rows, grain, (from, to) -> {
            for (long r = from; r < to; r++) {
                y.write(r * n, values, 0, n);
            }
        });
    }

    /** {@code sum} [n] = the sum of the rows of {@code x} [rows, n], or that added to it. */
    public static void sum(CpuTensor x, CpuTensor sum, int rows, int n, boolean accumulate, Parallel parallel) {
        parallel.ranges(n, PANEL, (from, to) -> {
            int width = (int) (to - from);
            float[] total = new float[width];
            float[] group = new float[width];
            float[] row = new float[width];
            if (accumulate) {
                sum.read(from, total, 0, width);
            }
            for (int start = 0; start < rows; start += GROUP) {
                x.read((long) start * n + from, group, 0, width);
                for (int r = start + 1; r < Math.min(rows, start + GROUP); r++) {
                    x.read((long) r * n + from, row, 0, width);
                    add(group, row);
                }
                add(total, group);
            }
            sum.write(from, total, 0, width);
        });
    }

    private static void add(float[] to, float[] from) {
        for (int i = 0; i < to.length; i++) {
            to[i] += from[i];
        }
    }
}
