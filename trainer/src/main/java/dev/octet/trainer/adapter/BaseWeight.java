package dev.octet.trainer.adapter;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;

/**
 * A matrix of the base by rows of its outputs, W [out, in], however it lies.
 *
 * @param tensor of a float type
 * @param transposed whether it lies as [in, out]
 */
record BaseWeight(Tensor tensor, boolean transposed) {
    int out() {
        return Math.toIntExact(tensor.shape().dim(transposed ? 1 : 0));
    }

    int in() {
        return Math.toIntExact(tensor.shape().dim(transposed ? 0 : 1));
    }

    /** Receives the rows of a matrix in the order in which they lie. */
    @FunctionalInterface
    interface Rows {
        /** Row {@code i} of the stored matrix; the array is used again. */
        void row(int i, float[] elements);
    }

    /** Reads the stored rows one by one. */
    void rows(Rows reader) {
        CpuTensor stored = new CpuTensor(new OperandType(tensor.dtype(), tensor.shape()), tensor.bytes());
        int rows = Math.toIntExact(tensor.shape().dim(0));
        float[] row = new float[Math.toIntExact(tensor.shape().dim(1))];
        for (int i = 0; i < rows; i++) {
            stored.read((long) i * row.length, row, 0, row.length);
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
        return new BaseWeight(tensor, !transposed).times(x);
    }

    /** Column {@code c} of W [out, in]. */
    double[] column(int c) {
        CpuTensor stored = new CpuTensor(new OperandType(tensor.dtype(), tensor.shape()), tensor.bytes());
        double[] column = new double[out()];
        long width = tensor.shape().dim(1);
        for (int i = 0; i < column.length; i++) {
            column[i] = stored.readNumber(transposed ? c * width + i : i * width + c);
        }
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

    /** All elements of a tensor as F32, as they lie. */
    static float[] elements(Tensor tensor) {
        CpuTensor stored = new CpuTensor(new OperandType(tensor.dtype(), tensor.shape()), tensor.bytes());
        float[] elements = new float[Math.toIntExact(stored.count())];
        stored.read(0, elements, 0, elements.length);
        return elements;
    }
}
