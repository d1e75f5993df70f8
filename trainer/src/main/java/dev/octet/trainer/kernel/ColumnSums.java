package dev.octet.trainer.kernel;

/**
 * Column sums of a matrix: the rows are cut into a fixed number of pieces, each piece adds into its own row of sums, and these rows are
 * added in order.
 */
public final class ColumnSums {
    /** Maximum number of pieces: enough for the threads of a socket, and their sums still fit a second-level cache. */
    private static final int MOST_PIECES = 32;

    private final float[][] partial;
    private final int rows;

    /** Allocates sums of {@code columns} columns over {@code rows} rows. */
    public ColumnSums(int rows, int columns) {
        this.rows = rows;
        this.partial = new float[pieces(rows)][columns];
    }

    /** Number of pieces for a number of rows. */
    public static int pieces(int rows) {
        return Math.min(MOST_PIECES, rows);
    }

    /** First row of piece {@code p} of {@code rows} rows; for {@code p} equal to the number of pieces, {@code rows}. */
    public static int start(int rows, int p) {
        return (int) ((long) rows * p / Math.max(1, pieces(rows)));
    }

    /** The row of sums of piece {@code p}; initially zero. */
    public float[] of(int p) {
        return partial[p];
    }

    /** Adds the pieces and writes the sums, rounded to the type of {@code to}. */
    public void write(CpuTensor to) {
        float[] sum = new float[Math.toIntExact(to.count())];
        for (int p = 0; p < pieces(rows); p++) {
            float[] more = partial[p];
            for (int i = 0; i < sum.length; i++) {
                sum[i] += more[i];
            }
        }
        to.write(0, sum, 0, sum.length);
    }
}
