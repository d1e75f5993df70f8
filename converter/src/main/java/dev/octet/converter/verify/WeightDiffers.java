package dev.octet.converter.verify;

import java.util.Locale;

/** Weights that are not those of the original. */
final class WeightDiffers extends WeightRule {
    WeightDiffers() {
        super(
                "weight-differs",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Dequantised, a weight is the original but for rounding.",
                "export again; codes or scales are of another weight, or in another order (swizzled)",
                "vllm-project/vime#133, vllm-project/vllm#36297");
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        WeightFacts.Comparison c = weight.comparison();
        if (c == null || c.agrees()) {
            return;
        }
        boolean explained =
                c.reciprocal() <= WeightFacts.Comparison.ROUNDING || c.transposed() <= WeightFacts.Comparison.ROUNDING;
        if (!explained) {
            findings.add(
                    this,
                    c.anyScale() <= WeightFacts.Comparison.ROUNDING
                            ? "codes fit the original, scales do not"
                            : "a weight is not that of the original",
                    weight.weight().name(),
                    errors(c.asStored(), c.anyScale()));
        }
    }

    /** Two relative errors in words. */
    static String errors(double asStored, double otherwise) {
        return String.format(Locale.ROOT, "relative error %.3g, otherwise %.3g", asStored, otherwise);
    }
}
