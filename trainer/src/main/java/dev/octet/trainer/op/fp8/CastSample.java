package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;

/**
 * Some vectors of an operand as they are and as their codes stand for them, found by the arithmetic of the kernels: what the error of a product
 * follows from without computing all of it.
 */
public final class CastSample {
    private final float[][] plain;
    private final float[][] quantised;

    private CastSample(float[][] plain, float[][] quantised) {
        this.plain = plain;
        this.quantised = quantised;
    }

    /**
     * Which vectors are looked at.
     *
     * @param rows whether they are rows of the matrix as it lies in memory, or else columns
     * @param count how many, evenly spaced; all of a matrix that has fewer
     * @param turn which ones: another number takes others
     */
    public record Pick(boolean rows, int count, long turn) {
        private int[] of(int vectors) {
            int n = Math.min(count, vectors);
            int[] picked = new int[n];
            int spacing = n == 0 ? 1 : vectors / n;
            int offset = (int) Math.floorMod(turn, (long) Math.max(1, spacing));
            for (int i = 0; i < n; i++) {
                picked[i] = i * spacing + offset;
            }
            return picked;
        }
    }

    /** The multiplier of each block that a matrix is cast with: from its own values, or the one that earlier steps left. */
    public static float[] quantScales(CpuTensor x, CodedMatrix form, float delayed) {
        QuantScaleRule rule = form.rule();
        return rule == null
                ? new float[] {delayed}
                : new MatrixCodes(form.blocks(), Parallel.ALONE).quantScales(x, form.format(), rule);
    }

    /**
     * The vectors of a matrix.
     *
     * @param quantScales one for each block, see {@link #quantScales}
     */
    public static CastSample of(CpuTensor x, CodedMatrix form, float[] quantScales, Pick pick) {
        Blocks blocks = form.blocks();
        int rows = Math.toIntExact(blocks.rows());
        int cols = Math.toIntExact(blocks.cols());
        int[] picked = pick.of(pick.rows() ? rows : cols);
        int length = pick.rows() ? cols : rows;
        float[][] plain = new float[picked.length][length];
        float[][] quantised = new float[picked.length][length];
        float[] row = new float[cols];
        if (pick.rows()) {
            for (int v = 0; v < picked.length; v++) {
                x.read((long) picked[v] * cols, row, 0, cols);
                for (int c = 0; c < cols; c++) {
                    put(form, quantScales, (long) picked[v] * cols + c, row[c], plain[v], quantised[v], c);
                }
            }
        } else {
            for (int r = 0; r < rows && picked.length > 0; r++) {
                x.read((long) r * cols, row, 0, cols);
                for (int v = 0; v < picked.length; v++) {
                    long at = (long) r * cols + picked[v];
                    put(form, quantScales, at, row[picked[v]], plain[v], quantised[v], r);
                }
            }
        }
        return new CastSample(plain, quantised);
    }

    private static void put(
            CodedMatrix form, float[] quantScales, long at, float value, float[] plain, float[] quantised, int i) {
        Float8Format format = form.format();
        float quantScale =
                quantScales[quantScales.length == 1 ? 0 : (int) form.blocks().scaleOf(at)];
        plain[i] = value;
        quantised[i] =
                format.decode(format.encode(value * quantScale, Overflow.SATURATE)) * QuantScaleRule.scale(quantScale);
    }

    /**
     * The error of a product: sums of squares over its elements.
     *
     * @param error of the product of what the codes stand for, minus the product of the operands
     * @param norm of the product of the operands
     */
    public record CastError(double error, double norm) {
        /** No elements. */
        public static final CastError NONE = new CastError(0, 0);

        /** The elements of both. */
        public CastError and(CastError other) {
            return new CastError(error + other.error, norm + other.norm);
        }

        /** In the Frobenius norm; 0 for a product that is 0 and stays so, NaN when something is not finite. */
        public double relative() {
            return error == 0 ? 0 : Math.sqrt(error / norm);
        }
    }

    /** The error of the products of each vector of one operand with each of the other. */
    public static CastError productError(CastSample left, CastSample right) {
        double error = 0;
        double norm = 0;
        for (int i = 0; i < left.plain.length; i++) {
            for (int j = 0; j < right.plain.length; j++) {
                double exact = dot(left.plain[i], right.plain[j]);
                double difference = dot(left.quantised[i], right.quantised[j]) - exact;
                error += difference * difference;
                norm += exact * exact;
            }
        }
        return new CastError(error, norm);
    }

    private static double dot(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += (double) a[i] * b[i];
        }
        return sum;
    }
}
