package dev.octet.quant.transform;

import dev.octet.quant.merge.WeightDelta.Axis;
import java.util.function.Supplier;

/**
 * One thing that a transform does to a matrix; a vector is a matrix of one row. Steps are done in order, in double precision.
 *
 * <p>Along {@link Axis#COLUMN} a step works within each row, one factor for each column; along {@link Axis#ROW} across the rows.
 */
public sealed interface WeightStep {
    /** What it does, in words, as {@code columns x s of model.layers.0.input_layernorm}. */
    String text();

    /**
     * Multiplies rows or columns.
     *
     * @param factors one for each row or column; asked for when the weight is changed, not before
     * @param offset what the model adds to the stored numbers (1 for norms that multiply by 1 + weight): {@code (w + offset) f - offset}
     */
    record Scale(String text, Axis axis, Supplier<double[]> factors, double offset) implements WeightStep {}

    /** Turns rows or columns, {@link Rotation#size} at a time: {@code W R}, or {@code R^T W} for rows. */
    record Turn(String text, Axis axis, Rotation rotation) implements WeightStep {}

    /** Puts one number in place of all: the weight of a norm that was folded into the Linears behind it. */
    record Fill(String text, double value) implements WeightStep {}

    /**
     * Clips each row to what its grid holds best, the last step.
     *
     * @param clip asked for when the weight is changed
     */
    record Clip(String text, Supplier<RowClip> clip) implements WeightStep {}

    /** Changes rows of a weight that is ready to be rounded. For use by several threads at once. */
    @FunctionalInterface
    interface RowClip {
        /** Clips the elements of a row. */
        void apply(long row, float[] values);
    }
}
