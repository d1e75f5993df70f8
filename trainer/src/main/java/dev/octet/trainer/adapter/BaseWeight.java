package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.MemorySegment;

/**
 * A matrix of the base by rows of its outputs, W [out, in], however it lies.
 *
 * @param constant of a float type, dense or coded; rows of a coded one are decoded one by one
 * @param transposed whether it lies as [in, out]
 */
record BaseWeight(Initializer constant, boolean transposed) {
    int out() {
        return Math.toIntExact(shape(constant).dim(transposed ? 1 : 0));
    }

    int in() {
        return Math.toIntExact(shape(constant).dim(transposed ? 0 : 1));
    }

    private static Shape shape(Initializer constant) {
        return constant.spec()
                .orElseThrow(() -> new IllegalArgumentException("'" + constant.name() + "' has no numbers"))
                .shape();
    }

    /** Receives the rows of a matrix in the order in which they lie. */
    @FunctionalInterface
    interface Rows {
        /** Row {@code i} of the stored matrix; the array is used again. */
        void row(int i, float[] elements);
    }

    /** Reads the stored rows one by one. */
    void rows(Rows reader) {
        int rows = Math.toIntExact(shape(constant).dim(0));
        float[] row = new float[Math.toIntExact(shape(constant).dim(1))];
        for (int i = 0; i < rows; i++) {
            read(constant, i, row);
            reader.row(i, row);
        }
    }

    /** ‖W‖² of each row of W [out, in], in F64. */
    double[] squares() {
        double[] squares = new double[out()];
        rows((i, row) -> {
            for (int k = 0; k < row.length; k++) {
                squares[transposed ? k : i] += (double) row[k] * row[k];
            }
        });
        return squares;
    }

    /** W·x for the columns of x: x [in, n], result [out, n], in F64. */
    double[][] times(double[][] x) {
        int n = x[0].length;
        double[][] y = new double[out()][n];
        rows((i, row) -> {
            for (int k = 0; k < row.length; k++) {
                double[] from = x[transposed ? i : k];
                double[] to = y[transposed ? k : i];
                for (int c = 0; c < n; c++) {
                    to[c] += row[k] * from[c];
                }
            }
        });
        return y;
    }

    /** Wᵀ·x: x [out, n], result [in, n], in F64. */
    double[][] transposedTimes(double[][] x) {
        return new BaseWeight(constant, !transposed).times(x);
    }

    /** Column {@code c} of W [out, in]. */
    double[] column(int c) {
        double[] column = new double[out()];
        rows((i, row) -> {
            if (!transposed) {
                column[i] = row[c];
            } else if (i == c) {
                for (int k = 0; k < column.length; k++) {
                    column[k] = row[k];
                }
            }
        });
        return column;
    }

    /** All elements of W [out, in], row by row. */
    float[] outIn() {
        float[] all = new float[Math.multiplyExact(out(), in())];
        rows((i, row) -> {
            for (int k = 0; k < row.length; k++) {
                all[transposed ? k * in() + i : i * in() + k] = row[k];
            }
        });
        return all;
    }

    /** All elements of a constant as F32, as they lie. */
    static float[] elements(Initializer constant) {
        float[] elements = new float[Math.toIntExact(shape(constant).elementCount())];
        read(constant, 0, elements);
        return elements;
    }

    /** Elements from a row on; the array holds whole rows of a matrix, or any constant whole. */
    static void read(Initializer constant, long row, float[] to) {
        switch (constant.data()) {
            case Initializer.Dense(Tensor tensor) -> {
                CpuTensor stored = new CpuTensor(new OperandType(tensor.dtype(), tensor.shape()), tensor.bytes());
                stored.read(row * to.length, to, 0, to.length);
            }
            case Initializer.Coded(CodedTensor coded) -> {
                long cols = Math.max(1, coded.spec().shape().dim(-1));
                coded.read(row, row + to.length / cols, MemorySegment.ofArray(to));
            }
            case Initializer.Strings _, Initializer.Sparse _, Initializer.Opaque _ ->
                throw new IllegalArgumentException("'" + constant.name() + "' has no numbers");
        }
    }
}
