package dev.octet.quant.recipe;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;

/**
 * How an operand of a training product is quantised.
 *
 * @param format the codes
 * @param span which elements share a scale
 * @param scaling where the scale comes from
 */
public record OperandForm(Float8Format format, Span span, Scaling scaling) {
    /** Which elements share a scale, seen from the product: vectors lie along the axis it sums over. */
    public sealed interface Span {
        /** All. */
        record Whole() implements Span {}

        /** Those that go into one sum: a row of the left operand, a column of the right one. */
        record Vector() implements Span {}

        /** Runs of {@code size} elements of such a vector. */
        record Run(int size) implements Span {}

        /** Squares of {@code size} by {@code size}; the same seen from either product. */
        record Square(int size) implements Span {}
    }

    /** Where a scale comes from. */
    public sealed interface Scaling {
        /** From the values that are cast. */
        record Current(QuantScaleRule rule) implements Scaling {}

        /** From the largest magnitudes of earlier steps. */
        record Delayed(int margin, int historyLength, AmaxHistory.Algorithm algorithm) implements Scaling {}
    }

    /** Whether one scale goes with each sum of the product, so that it can be applied to the sum. */
    public boolean scalesSums() {
        return switch (span) {
            case Span.Whole _, Span.Vector _ -> true;
            case Span.Run _, Span.Square _ -> false;
        };
    }
}
