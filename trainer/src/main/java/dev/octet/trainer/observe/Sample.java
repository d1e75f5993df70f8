package dev.octet.trainer.observe;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.fp8.CodedMatrix;

/**
 * A tensor of one micro-batch in host memory, as a matrix.
 *
 * @param values in memory's order
 * @param rows of the matrix: tokens, or outputs of a weight
 * @param cols of the matrix
 * @param transposed whether memory holds [cols, rows]
 */
public record Sample(CpuTensor values, int rows, int cols, boolean transposed) {
    public Sample {
        if ((long) rows * cols != values.count()) {
            throw new IllegalArgumentException(values.type() + " is no matrix of " + rows + " x " + cols);
        }
    }

    /** A tensor whose last axis is the columns. */
    public static Sample of(CpuTensor values) {
        int rank = values.shape().rank();
        int cols = rank == 0 ? 1 : Math.toIntExact(values.shape().dim(rank - 1));
        return new Sample(values, cols == 0 ? 0 : Math.toIntExact(values.count() / cols), cols, false);
    }

    /** A weight or its gradient, [out, in], that lies as [in, out] unless {@code transB}. */
    public static Sample ofWeight(CpuTensor values, boolean transB) {
        int first = Math.toIntExact(values.shape().dim(0));
        int second = Math.toIntExact(values.shape().dim(1));
        return transB ? new Sample(values, first, second, false) : new Sample(values, second, first, true);
    }

    /** Blocks of this granularity, as they lie in memory. */
    Blocks blocks(Granularity granularity) {
        Blocks blocks = CodedMatrix.blocks(granularity, rows, cols);
        return transposed ? blocks.transposed() : blocks;
    }

    /** All elements in the matrix's order. */
    float[] elements() {
        float[] all = new float[Math.toIntExact(values.count())];
        values.read(0, all, 0, all.length);
        if (!transposed) {
            return all;
        }
        float[] turned = new float[all.length];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                turned[r * cols + c] = all[c * rows + r];
            }
        }
        return turned;
    }
}
