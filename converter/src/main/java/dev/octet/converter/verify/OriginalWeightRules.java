package dev.octet.converter.verify;

import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import java.io.IOException;
import java.util.Locale;

/** Quantised weights compared with the original. */
final class OriginalWeightRules {
    /** Scales that fit the original only as reciprocals. */
    static final WeightRule DIRECTION = Demand.error("weight-direction", Consumer.OF_CHECKPOINTS)
            .text("Code times scale is the original weight, not code over scale.")
            .fix("store the reciprocal of the scales")
            .source("vllm-project/vllm#36297, modular/modular#6600")
            .withOriginal()
            .onWeights(OriginalWeightRules::direction);

    private static void direction(WeightFacts weight, CheckpointSubject subject, Report report) {
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && !c.agrees() && c.reciprocal() <= WeightFacts.Comparison.ROUNDING) {
            report.add(
                    "scales fit the original as reciprocals only",
                    weight.weight().name(),
                    errors(c.asStored(), c.reciprocal()));
        }
    }

    /** Square grids of scales that are transposed. */
    static final WeightRule TRANSPOSED = Demand.error("weight-transposed", Consumer.OF_CHECKPOINTS)
            .text("The grid of block scales has the orientation of its weight; for a square grid only the"
                    + " values show it.")
            .fix("transpose the scales")
            .source("vllm-project/vllm#36297,"
                    + " huggingface/transformers:src/transformers/integrations/finegrained_fp8.py")
            .withOriginal()
            .onWeights(OriginalWeightRules::transposed);

    private static void transposed(WeightFacts weight, CheckpointSubject subject, Report report) {
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && c.isTransposed()) {
            report.add(
                    "the grid of scales is transposed", weight.weight().name(), errors(c.asStored(), c.transposed()));
        }
    }

    /** Weights that are not those of the original. */
    static final WeightRule DIFFERS = Demand.error("weight-differs", Consumer.OF_CHECKPOINTS)
            .text("Dequantised, a weight is the original up to rounding: no code is further from the nearest"
                    + " one than rounding brings it.")
            .fix("export again; codes or scales are of another weight, in another order (swizzled), or damaged")
            .source("vllm-project/vime#133, vllm-project/vllm#36297")
            .withOriginal()
            .onWeights(OriginalWeightRules::differs);

    private static void differs(WeightFacts weight, CheckpointSubject subject, Report report) throws IOException {
        String name = weight.weight().name();
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && !c.agrees()) {
            boolean explained = c.reciprocal() <= WeightFacts.Comparison.ROUNDING
                    || c.transposed() <= WeightFacts.Comparison.ROUNDING;
            if (!explained) {
                report.add(
                        c.anyScale() <= WeightFacts.Comparison.ROUNDING
                                ? "codes fit the original, scales do not"
                                : "a weight differs from the original's",
                        name,
                        errors(c.asStored(), c.anyScale()));
            }
            return;
        }
        OriginalDiff diff = subject.originalDiff();
        TensorDiff pair = diff == null ? null : diff.of(name);
        if (diff == null || pair == null || (c != null && c.isTransposed())) {
            return;
        }
        Nearness n = pair.nearness();
        if (pair.sqnrDb() < 0 || OriginalDiff.relativeError(pair) > WeightFacts.Comparison.ROUNDING) {
            report.add(
                    "a weight differs from the original's",
                    name,
                    String.format(Locale.ROOT, "relative error %.3g", OriginalDiff.relativeError(pair)));
        } else if (pair.notFiniteApart() > 0) {
            report.add(
                    "a weight is NaN or infinite where the original is not",
                    name,
                    pair.notFiniteApart() + " of " + pair.elements());
        } else if (diff.isDamaged(n)) {
            report.add(
                    "codes differ from the original by more than rounding explains",
                    name,
                    String.format(
                            Locale.ROOT,
                            "%d of %d, the furthest at %s",
                            n.far(),
                            n.elements(),
                            OriginalDiff.place(pair, n.furthestAt())));
        }
    }

    /** Two relative errors in words. */
    private static String errors(double asStored, double otherwise) {
        return String.format(Locale.ROOT, "relative error %.3g, otherwise %.3g", asStored, otherwise);
    }

    /** Codes that are not the nearest. */
    static final WeightRule ROUNDING = Demand.advice("weight-rounding", Consumer.OF_CHECKPOINTS)
            .text("Every code is the one nearest to original over scale, unless weights were rounded with"
                    + " compensation.")
            .fix("nothing where that was intended (GPTQ); otherwise quantise again, rounding to nearest with"
                    + " the scale as stored")
            .source("microsoft/onnxruntime#16938, vllm-project/vllm#40934")
            .withOriginal()
            .onWeights(OriginalWeightRules::rounding);

    /** A bias that neither rounding nor compensation makes: truncation makes 3 % of E4M3, GPTQ to E2M1 up to 4.2 %. */
    private static final double BIAS = 0.045;

    /** Errors so much larger than those of rounding to nearest are more than compensation makes: GPTQ makes 1.2 to 2.6 times as much. */
    private static final double LARGE = 4;

    private static void rounding(WeightFacts weight, CheckpointSubject subject, Report report) throws IOException {
        OriginalDiff diff = subject.originalDiff();
        TensorDiff pair = diff == null ? null : diff.of(weight.weight().name());
        WeightFacts.Comparison c = weight.comparison();
        if (diff == null
                || pair == null
                || pair.nearness().off() == 0
                || OriginalDiff.relativeError(pair) > WeightFacts.Comparison.ROUNDING
                || (c != null && c.isTransposed())
                || diff.isDamaged(pair.nearness())) {
            return;
        }
        rounding(pair, weight.weight().name(), report);
    }

    /** Reports what codes that are not the nearest look like. */
    static void rounding(TensorDiff pair, String name, Report report) {
        Nearness n = pair.nearness();
        String detail = String.format(
                Locale.ROOT,
                "%d of %d codes, error %.2f times that of the nearest",
                n.off(),
                n.elements(),
                n.rms() / n.nearestRms());
        if (n.clipped() == 0 && Math.abs(n.gain() - 1) > BIAS) {
            report.add(
                    Severity.WARNING,
                    "a weight is too large or too small overall: scales do not fit its codes",
                    name,
                    String.format(Locale.ROOT, "the original is %.3f times as large", n.gain()));
        } else if (n.rms() > LARGE * n.nearestRms()) {
            report.add(
                    Severity.WARNING,
                    "codes are further from the original than any rounding should bring them",
                    name,
                    detail);
        } else if (n.far() == 0) {
            report.add("codes are slightly off the nearest to the original: rounded twice", name, detail);
        } else {
            report.add(
                    "codes are not those nearest to the original: rounded with compensation (GPTQ), twice, or with"
                            + " another scale",
                    name,
                    detail);
        }
    }

    private OriginalWeightRules() {}
}
