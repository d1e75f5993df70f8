package dev.octet.converter.verify;

import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.converter.inspect.QuantizedConstant;
import java.util.Locale;

/** Quantised weights of ONNX graphs compared with those of the model that they were made from. */
final class OnnxOriginalRules {
    /** Weights that are not those of the original. */
    static final GraphRule DIFFERS = Demand.error("onnx-weight-differs", Consumer.OF_GRAPHS)
            .text("Dequantised, a weight is the original up to rounding: scale, zero point, axis and codes are its"
                    + " own.")
            .fix("quantise again; a scale, a zero point, the axis or the codes are another weight's, or wrong by a"
                    + " factor")
            .source("onnx/onnx:docs/Operators.md, vllm-project/vllm#36297")
            .readingWeights()
            .withOriginal()
            .onGraphs(OnnxOriginalRules::differs);

    /** Relative error beyond which no code of four bits or more is the original. */
    private static final double MOST = WeightFacts.Comparison.ROUNDING;

    private static void differs(GraphSubject subject, Report report) {
        OriginalDiff diff = subject.diff();
        if (diff == null) {
            return;
        }
        for (QuantizedConstant weight : subject.quantized().values()) {
            String name = weight.name();
            TensorDiff pair = diff.of(name);
            if (pair == null) {
                if (weight.codes().shape().rank() > 1) {
                    report.add(Severity.ADVICE, "a weight has no counterpart in the original", name, "");
                }
                continue;
            }
            Nearness n = pair.nearness();
            double error = OriginalDiff.relativeError(pair);
            if (pair.sqnrDb() < 0 || error > MOST) {
                report.add(
                        "a weight differs from the original's",
                        name,
                        String.format(
                                Locale.ROOT,
                                "relative error %.3g, the original is %.3f times as large",
                                error,
                                n.gain()));
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
    }

    /** Codes that are not the nearest. */
    static final GraphRule ROUNDING = Demand.advice("onnx-weight-rounding", Consumer.OF_GRAPHS)
            .text("Every code is the one nearest to original over scale, unless weights were rounded with"
                    + " compensation.")
            .fix("nothing where that was intended (GPTQ); otherwise quantise again, rounding to nearest with the"
                    + " scale as stored")
            .source("microsoft/onnxruntime#16938")
            .readingWeights()
            .withOriginal()
            .onGraphs(OnnxOriginalRules::rounding);

    private static void rounding(GraphSubject subject, Report report) {
        OriginalDiff diff = subject.diff();
        if (diff == null) {
            return;
        }
        for (String name : subject.quantized().keySet()) {
            TensorDiff pair = diff.of(name);
            if (pair == null
                    || pair.nearness().off() == 0
                    || !(OriginalDiff.relativeError(pair) <= MOST)
                    || diff.isDamaged(pair.nearness())) {
                continue;
            }
            OriginalWeightRules.rounding(pair, name, report);
        }
    }

    private OnnxOriginalRules() {}
}
