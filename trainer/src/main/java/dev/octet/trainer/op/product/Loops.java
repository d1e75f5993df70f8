package dev.octet.trainer.op.product;

/** The product that is law: three loops over doubles. */
public final class Loops {
    /**
     * A matrix within an array: element (i, j) lies at {@code at + i·row + j·column}.
     *
     * @param values the array; a matrix that is written is written there
     */
    @SuppressWarnings("ArrayRecordComponent") // a view, never compared
    public record Matrix(double[] values, int at, int row, int column) {
        /** A contiguous matrix that starts the array. */
        public static Matrix of(double[] values, int columns) {
            return of(values, 0, columns);
        }

        /** A contiguous matrix at some place of the array. */
        public static Matrix of(double[] values, int at, int columns) {
            return new Matrix(values, at, columns, 1);
        }

        /** The same numbers, mirrored. */
        public Matrix transposed() {
            return new Matrix(values, at, column, row);
        }

        /** Transposed, or as it is. */
        public Matrix transposed(boolean whether) {
            return whether ? transposed() : this;
        }

        private double get(int i, int j) {
            return values[at + i * row + j * column];
        }
    }

    private Loops() {}

    /** c += factor · a·b, with a [m, k] and b [k, n]. */
    public static void add(Matrix a, Matrix b, Matrix c, int m, int n, int k, double factor) {
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int p = 0; p < k; p++) {
                    sum += a.get(i, p) * b.get(p, j);
                }
                c.values()[c.at() + i * c.row() + j * c.column()] += factor * sum;
            }
        }
    }

    /** As {@link #add(Matrix, Matrix, Matrix, int, int, int, double)} with factor 1. */
    public static void add(Matrix a, Matrix b, Matrix c, int m, int n, int k) {
        add(a, b, c, m, n, k, 1);
    }
}
