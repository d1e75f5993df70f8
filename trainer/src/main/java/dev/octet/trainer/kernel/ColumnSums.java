package dev.octet.trainer.kernel;

/**
 * Sums over the rows of a matrix, column by column: rows are cut into a fixed number of pieces, each piece adds into a row of its own,
 * and the pieces' rows are added in order.
 */
public final class ColumnSums {
    /** Most pieces: enough for the threads of a socket; their rows still lie in a second-level cache. */
    private static final int MOST_PIECES = 32;

    private final float[][] partial;
    private final int rows;

    /** Room for the sums of {@code columns} columns over {@code rows} rows. */
    public ColumnSums(int rows, int columns) {
        this.rows = rows;
        this.partial = new float[pieces(rows)][columns];
    }

    /** How many pieces a number of rows is cut into. */
    public static int pieces(int rows) {
        return Math.min(MOST_PIECES, rows);
    }

    /** First row of piece {@code p} out of {@code rows} rows; that of the piece behind the last is {@code rows}. */
    public static int start(int rows, int p) {
        return (int) ((long) rows * p / Math.max(1, pieces(rows)));
    }

    /** Where piece {@code p} adds; zero at first. */
    public float[] of(int p) {
        return partial[p];
    }

    /** The sums, rounded to the type of {@code to}. */
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
