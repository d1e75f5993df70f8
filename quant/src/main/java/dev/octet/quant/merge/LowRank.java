package dev.octet.quant.merge;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import java.util.Optional;

/**
 * LoRA: adds {@code factor * B * A} to a weight (Hu et al. 2021, arXiv:2106.09685). A product is summed over the rank from first to last in
 * F32, without fused multiply-add, then multiplied by the factor and added: the same bits on any processor and thread.
 *
 * <p>PEFT's factors lie as {@code A [r, in]} and {@code B [out, r]}; of {@code experts} matrices as {@code A [experts * r, in]}, expert by
 * expert, and {@code B [out, r * experts]}, rank by rank ({@code ParamWrapper.get_delta_weight}). Here they are kept as the left factor
 * {@code [rows, r]} and the right one {@code [r, cols]} of each matrix as the weight lies.
 */
public final class LowRank implements WeightDelta {
    private final float[] left;
    private final float[] right;
    private final int rank;
    private final int rowsOfMatrix;
    private final long rows;
    private final int cols;
    private final float factor;

    private LowRank(float[] left, float[] right, int rank, Shape weight, float factor) {
        this.left = left;
        this.right = right;
        this.rank = rank;
        this.rowsOfMatrix = Math.toIntExact(Blocks.rows(weight));
        this.rows = left.length / rank;
        this.cols = Math.toIntExact(Blocks.cols(weight));
        this.factor = factor;
    }

    private LowRank(LowRank other, float factor) {
        this.left = other.left;
        this.right = other.right;
        this.rank = other.rank;
        this.rowsOfMatrix = other.rowsOfMatrix;
        this.rows = other.rows;
        this.cols = other.cols;
        this.factor = factor;
    }

    /** How a weight lies in its tensor. */
    public enum Orientation {
        /** {@code [out, in]}, as a Linear's. */
        OUT_IN,
        /** {@code [in, out]}: transformers' Conv1D ({@code fan_in_fan_out}), embeddings, some fused experts. */
        IN_OUT
    }

    /**
     * The factors of a weight.
     *
     * @param a {@code [experts * r, in]}
     * @param b {@code [out, r * experts]}
     * @param weight {@code [out, in]} or {@code [in, out]}, with the experts in front if there are several
     * @param factor the adapter's scaling, times its weight among several adapters
     * @throws IllegalArgumentException when the factors do not have these shapes
     */
    public static LowRank of(float[] a, float[] b, Shape weight, Orientation orientation, float factor) {
        int experts = weight.rank() == 3 ? Math.toIntExact(weight.dim(0)) : 1;
        int rows = Math.toIntExact(weight.dim(-2));
        int cols = Math.toIntExact(weight.dim(-1));
        int in = orientation == Orientation.OUT_IN ? cols : rows;
        int out = orientation == Orientation.OUT_IN ? rows : cols;
        int rank = in == 0 || experts == 0 ? 0 : a.length / experts / in;
        if (rank == 0 || (long) rank * experts * in != a.length || (long) rank * experts * out != b.length) {
            throw new IllegalArgumentException(
                    "factors of " + a.length + " and " + b.length + " elements for " + weight);
        }
        float[] left = new float[experts * rows * rank];
        float[] right = new float[experts * rank * cols];
        for (int e = 0; e < experts; e++) {
            for (int k = 0; k < rank; k++) {
                for (int i = 0; i < in; i++) {
                    float value = a[(e * rank + k) * in + i];
                    if (orientation == Orientation.OUT_IN) {
                        right[(e * rank + k) * cols + i] = value;
                    } else {
                        left[(e * rows + i) * rank + k] = value;
                    }
                }
                for (int o = 0; o < out; o++) {
                    float value = b[(o * rank + k) * experts + e];
                    if (orientation == Orientation.OUT_IN) {
                        left[(e * rows + o) * rank + k] = value;
                    } else {
                        right[(e * rank + k) * cols + o] = value;
                    }
                }
            }
        }
        return new LowRank(left, right, rank, weight, factor);
    }

    @Override
    public long rows() {
        return rows;
    }

    @Override
    public int cols() {
        return cols;
    }

    /** The number of columns of the left factor. */
    public int rank() {
        return rank;
    }

    @Override
    public void apply(long row, float[] values) {
        float[] delta = new float[cols];
        product(row, delta);
        for (int i = 0; i < cols; i++) {
            values[i] += delta[i] * factor;
        }
    }

    /** Adds a row of {@code B * A}, without the factor, to zeros. */
    private void product(long row, float[] sum) {
        int first = Math.toIntExact(row) / rowsOfMatrix * rank;
        for (int k = 0; k < rank; k++) {
            float l = left[Math.toIntExact(row) * rank + k];
            int from = (first + k) * cols;
            for (int i = 0; i < cols; i++) {
                sum[i] += l * right[from + i];
            }
        }
    }

    @Override
    public Optional<WeightDelta> inverse() {
        return Optional.of(new LowRank(this, -factor));
    }

    @Override
    public boolean isIdentity() {
        return factor == 0 || isZero(left) || isZero(right);
    }

    private static boolean isZero(float[] values) {
        for (float v : values) {
            if (v != 0) {
                return false;
            }
        }
        return true;
    }
}
