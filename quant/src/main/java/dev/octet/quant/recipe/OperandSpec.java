package dev.octet.quant.recipe;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.ScaleCandidates;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.quant.scale.StoredScale;
import java.util.function.DoubleUnaryOperator;

/**
 * How one operand of a matrix product is quantised, in conversion and in training; values beyond the largest code saturate.
 *
 * @param type what the codes are
 * @param granularity which elements share a scale: of an input in [..., in] order, of a weight in [out, in] order (its output channels are
 *     axis -2), of an output gradient in [tokens, out] order
 * @param scaling where the scale comes from
 */
public record OperandSpec(QuantType type, Granularity granularity, Scaling scaling) {
    /** Where a scale comes from. */
    public sealed interface Scaling {
        /**
         * From the tensor itself, once, when the model is converted: weights.
         *
         * @param rule how the scale follows from the largest magnitude of its elements
         * @param scaleType the number type of stored scales: F32, BF16, F16 or F8_E8M0; F8_E4M3FN with a second level above them (NVFP4)
         */
        record FromValues(ScaleRule rule, DType scaleType) implements Scaling {
            /** @throws IllegalArgumentException when scales cannot be stored as {@code scaleType} */
            public FromValues {
                if (!StoredScale.isScaleType(scaleType) && scaleType != DType.F8_E4M3FN) {
                    throw new IllegalArgumentException("scales cannot be stored as " + scaleType);
                }
            }
        }

        /**
         * From statistics of earlier runs, fixed in the file: static scales of activations. A consumer of checkpoints without statistics
         * finds them at run time; ONNX has no way to say that.
         */
        record FromStatistics() implements Scaling {}

        /** From the values of each run, by the consumer: dynamic scales of activations. */
        record Dynamic() implements Scaling {}

        /** From the values of each training step. */
        record Current(QuantScaleRule rule) implements Scaling {}

        /** From the largest magnitudes of earlier training steps. */
        record Delayed(int margin, int historyLength, AmaxHistory.Algorithm algorithm) implements Scaling {}
    }

    /** A tensor that is quantised once, with scales {@code amax / max} stored as F32. */
    public static OperandSpec fromValues(QuantType type, Granularity granularity) {
        return new OperandSpec(type, granularity, new Scaling.FromValues(new ScaleRule.AmaxRule(), DType.F32));
    }

    /**
     * A tensor that is quantised once to a float format, with scales {@code amax / max} stored as F32.
     *
     * @throws IllegalArgumentException for E8M0, which is a format for scales
     */
    public static OperandSpec fromValues(Float8Format format, Granularity granularity) {
        return fromValues(
                QuantType.of(format)
                        .orElseThrow(() -> new IllegalArgumentException(
                                format + " has neither sign nor zero; it is a format for scales, not values")),
                granularity);
    }

    /** This, quantised once with scales by another rule and stored as another type. */
    public OperandSpec scaledBy(ScaleRule rule, DType scaleType) {
        return new OperandSpec(type, granularity, new Scaling.FromValues(rule, scaleType));
    }

    /** This with other elements sharing a scale. */
    public OperandSpec with(Granularity other) {
        return new OperandSpec(type, other, scaling);
    }

    /**
     * The float format of the codes.
     *
     * @throws IllegalStateException for integers
     */
    public Float8Format format() {
        return type.minifloat().orElseThrow(() -> new IllegalStateException(type + " are integers, not floats"));
    }

    /**
     * How scales follow from magnitudes.
     *
     * @throws IllegalStateException when scales come from elsewhere than the tensor itself
     */
    public ScaleRule rule() {
        return stored().rule();
    }

    /**
     * The number type of stored scales.
     *
     * @throws IllegalStateException when scales come from elsewhere than the tensor itself
     */
    public DType scaleType() {
        return stored().scaleType();
    }

    private Scaling.FromValues stored() {
        if (scaling instanceof Scaling.FromValues values) {
            return values;
        }
        throw new IllegalStateException("scales do not come from the tensor itself");
    }

    /** The stored scale of elements whose largest magnitude is {@code amax} (finite), by the rule and rounded to its type. */
    public float storedScale(float amax) {
        return StoredScale.round(exactScale(amax), scaleType());
    }

    /** {@link #storedScale} before it is rounded to its type. */
    public float exactScale(float amax) {
        return type.isInteger()
                ? amax == 0 ? 1 : Math.max(amax / type.amaxDivisor(), Float.MIN_VALUE)
                : rule().scale(amax, format());
    }

    /** Multiples of the usual scale that a search tries: integers have nothing to gain beyond their range. */
    private static final ScaleRule.MseRule INTEGERS = new ScaleRule.MseRule(0.5f, 1.1f, 25);

    /**
     * The scales that a search tries for a block, where there is no second level above them.
     *
     * @throws IllegalStateException for two levels
     */
    public ScaleCandidates candidates() {
        if (twoLevels()) {
            throw new IllegalStateException("the scales of blocks depend on that of the tensor");
        }
        DoubleUnaryOperator usual = amax -> exactScale((float) amax);
        boolean powers = rule() instanceof ScaleRule.MxRule || rule() instanceof ScaleRule.PowerOfTwoRule;
        return powers
                ? new ScaleCandidates.Powers(usual, scaleType())
                : new ScaleCandidates.Multiples(
                        usual, type.isInteger() ? INTEGERS : new ScaleRule.MseRule(), scaleType());
    }

    /** Whether one more scale for the whole tensor stands above the scales: {@code scale = globalScale * blockScale}. */
    public boolean twoLevels() {
        return scaleType() == DType.F8_E4M3FN;
    }

    /** Whether consumers find the scales at run time. */
    public boolean isDynamic() {
        return scaling instanceof Scaling.Dynamic;
    }

    /** Whether all elements share one scale. */
    public boolean perTensor() {
        return granularity instanceof Granularity.PerTensor;
    }
}
