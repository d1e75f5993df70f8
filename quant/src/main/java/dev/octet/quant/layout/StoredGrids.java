package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.ScaleRule;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How the values of a checkpoint's weights are quantised again so that the result lies in the same tensors.
 *
 * @param exponent how exponents of MX blocks are chosen, which the layout tells
 * @param powersOfTwo whether float scales are powers of two
 */
public record StoredGrids(ScaleRule.Exponent exponent, boolean powersOfTwo) {
    private static final int CODE_BITS = 8;

    /**
     * Of a checkpoint.
     *
     * @param layout its layout's name
     * @param config {@code config.json}; null without one
     */
    public static StoredGrids of(String layout, @Nullable ObjectNode config) {
        boolean powers = config != null
                && config.path("quantization_config")
                        .path("scale_fmt")
                        .asText("")
                        .equals("ue8m0");
        return new StoredGrids(
                layout.equals("compressed-tensors") ? ScaleRule.Exponent.COMPRESSED_TENSORS : ScaleRule.Exponent.CEIL,
                powers);
    }

    /**
     * The grid of weights of one form; empty when Octet reads the form but does not write it.
     *
     * @param number of the stored scales
     * @param second of the second level of scales; null where there is none
     */
    public Optional<WeightGrid> grid(
            QuantType codes, Granularity granularity, DType number, ScaleTensor.@Nullable Direction second) {
        boolean twoLevels = codes.minifloat().isPresent() && second != null;
        boolean written =
                twoLevels ? number == DType.F8_E4M3FN : (number != DType.F8_E4M3FN && codes.bits() == CODE_BITS);
        if (!written) {
            return Optional.empty();
        }
        OperandSpec scheme = OperandSpec.fromValues(codes, granularity).scaledBy(rule(granularity, number), number);
        GlobalScale.Direction direction = second == null
                ? null
                : second == ScaleTensor.Direction.MULTIPLIER
                        ? GlobalScale.Direction.MULTIPLIER
                        : GlobalScale.Direction.DIVISOR;
        return Optional.of(new WeightGrid(scheme, direction));
    }

    /** The grid of a weight. */
    public Optional<WeightGrid> grid(WeightForm form) {
        WeightForm.Second second = form.second();
        return grid(form.codes(), form.granularity(), form.scale(), second == null ? null : second.direction());
    }

    private ScaleRule rule(Granularity granularity, DType number) {
        if (granularity instanceof Granularity.Mx) {
            return new ScaleRule.MxRule(exponent);
        }
        boolean powers = (powersOfTwo && number != DType.F8_E4M3FN) || number == DType.F8_E8M0;
        return powers ? new ScaleRule.PowerOfTwoRule(ScaleRule.Rounding.UP) : new ScaleRule.AmaxRule();
    }
}
