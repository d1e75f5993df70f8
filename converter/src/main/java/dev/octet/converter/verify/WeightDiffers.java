package dev.octet.converter.verify;

import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import java.io.IOException;
import java.util.Locale;

/** Weights that are not those of the original. */
final class WeightDiffers extends WeightRule {
    WeightDiffers() {
        super(
                "weight-differs",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Dequantised, a weight is the original but for rounding: no code is further from the nearest one than"
                        + " rounding brings it.",
                "export again; codes or scales are of another weight, in another order (swizzled), or damaged",
                "vllm-project/vime#133, vllm-project/vllm#36297");
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) throws IOException {
        String name = weight.weight().name();
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && !c.agrees()) {
            boolean explained = c.reciprocal() <= WeightFacts.Comparison.ROUNDING
                    || c.transposed() <= WeightFacts.Comparison.ROUNDING;
            if (!explained) {
                findings.add(
                        this,
                        c.anyScale() <= WeightFacts.Comparison.ROUNDING
                                ? "codes fit the original, scales do not"
                                : "a weight is not that of the original",
                        name,
                        errors(c.asStored(), c.anyScale()));
            }
            return;
        }
        BesideOriginal beside = subject.besideOriginal();
        TensorDiff pair = beside == null ? null : beside.of(name);
        if (beside == null || pair == null || (c != null && c.isTransposed())) {
            return;
        }
        Nearness n = pair.nearness();
        if (pair.sqnrDb() < 0 || BesideOriginal.relativeError(pair) > WeightFacts.Comparison.ROUNDING) {
            findings.add(
                    this,
                    "a weight is not that of the original",
                    name,
                    String.format(Locale.ROOT, "relative error %.3g", BesideOriginal.relativeError(pair)));
        } else if (pair.notFiniteApart() > 0) {
            findings.add(
                    this,
                    "a weight is NaN or infinite where the original is not",
                    name,
                    pair.notFiniteApart() + " of " + pair.elements());
        } else if (beside.isDamaged(n)) {
            findings.add(
                    this,
                    "codes are not the original's, and no rounding makes them so",
                    name,
                    String.format(
                            Locale.ROOT,
                            "%d of %d, the furthest at %s",
                            n.far(),
                            n.elements(),
                            BesideOriginal.place(pair, n.furthestAt())));
        }
    }

    /** Two relative errors in words. */
    static String errors(double asStored, double otherwise) {
        return String.format(Locale.ROOT, "relative error %.3g, otherwise %.3g", asStored, otherwise);
    }
}
