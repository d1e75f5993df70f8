package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleRule;

/** How the values of a stored weight would be quantised again so that the result lies in the same tensors. */
final class StoredScheme {
    private static final int CODE_BITS = 8;

    private StoredScheme() {}

    /**
     * The scheme of a weight.
     *
     * @param stored where it was found; the layout tells how exponents of MX blocks are chosen
     * @param checkpoint its configuration tells whether float scales are powers of two
     * @throws UnsupportedModelException when Octet reads this form but does not write it
     */
    static OperandSpec of(StoredWeight weight, StoredCheckpoint stored, Checkpoint checkpoint) {
        DType number = WeightReader.requireScale(weight).number();
        boolean fourBitFloats = weight.codes().minifloat().isPresent() && weight.globalScale() != null;
        boolean written = fourBitFloats
                ? number == DType.F8_E4M3FN
                : number != DType.F8_E4M3FN && weight.codes().bits() == CODE_BITS;
        if (!written) {
            throw new UnsupportedModelException(
                    "Octet reads " + weight.form() + " but does not write it",
                    "weight '" + weight.name() + "'",
                    "give a recipe for the merged weights: --recipe fp8-dynamic --target compressed-tensors");
        }
        OperandSpec plain = OperandSpec.fromValues(weight.codes(), weight.granularity());
        return plain.scaledBy(rule(weight, number, stored, checkpoint), number);
    }

    private static ScaleRule rule(
            StoredWeight weight, DType number, StoredCheckpoint stored, Checkpoint checkpoint) {
        if (weight.granularity() instanceof Granularity.Mx) {
            return new ScaleRule.MxRule(
                    stored.layout().equals("compressed-tensors")
                            ? ScaleRule.Exponent.COMPRESSED_TENSORS
                            : ScaleRule.Exponent.CEIL);
        }
        boolean powers = checkpoint
                .config()
                .map(c -> c.path("quantization_config").path("scale_fmt").asText("").equals("ue8m0"))
                .orElse(false);
        return powers && number != DType.F8_E4M3FN || number == DType.F8_E8M0
                ? new ScaleRule.PowerOfTwoRule(ScaleRule.Rounding.UP)
                : new ScaleRule.AmaxRule();
    }
}
