package dev.octet.converter.verify;

import dev.octet.quant.number.QuantType;
import java.util.Locale;

/** Codes of quantised weights. */
final class WeightValueRules {
    /** Codes that are NaN or infinite. */
    static final WeightRule NAN = Demand.error("weight-nan", Consumer.OF_CHECKPOINTS)
            .text("No code of a weight is NaN or infinite.")
            .fix("quantise the weight again from a sound original")
            .source("NVIDIA/Model-Optimizer#1397, pytorch/ao#4713")
            .onWeights(WeightValueRules::nan);

    private static void nan(WeightFacts weight, CheckpointSubject subject, Report report) {
        if (weight.notFinite() > 0) {
            report.add(
                    "a weight has codes that are NaN or infinite",
                    weight.weight().name(),
                    weight.notFinite() + " of " + weight.histogram().total());
        }
    }

    /** Codes that are NaN for FNUZ readers. */
    static final WeightRule NEGATIVE_ZERO = Demand.advice("weight-negative-zero", Consumer.VLLM_LIKE)
            .text("No code is 0x80: it is -0 in E4M3FN and NaN in the FNUZ format of older AMD devices, whose loaders"
                    + " must replace it.")
            .fix("write 0x00 for 0x80; the value is the same")
            .source("triton-lang/triton#10745, onnx/onnx#5764,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onWeights(WeightValueRules::negativeZero);

    /** Rounding small weights to zero keeps their sign: a few of these are in every weight. */
    private static final double NORMAL_SHARE = 0.05;

    private static void negativeZero(WeightFacts weight, CheckpointSubject subject, Report report) {
        long count =
                weight.weight().codes() == QuantType.E4M3FN ? weight.histogram().count(0x80) : 0;
        if (count > NORMAL_SHARE * weight.histogram().total()) {
            report.add(
                    "many codes of a weight are 0x80",
                    weight.weight().name(),
                    count + " of " + weight.histogram().total());
        }
    }

    /** Weights whose size no trained weight has. */
    static final WeightRule MAGNITUDE = Demand.warning("weight-magnitude", Consumer.OF_CHECKPOINTS)
            .text("Dequantised weights have a root mean square from 1e-4 to 10.")
            .fix("look at the direction of the scales and of the global scale; compare with --against")
            .source("modular/modular#6600")
            .onWeights(WeightValueRules::magnitude);

    private static void magnitude(WeightFacts weight, CheckpointSubject subject, Report report) {
        double rms = weight.rms();
        if (weight.histogram().distinct() > 1 && (rms < 1e-4 || rms > 10)) {
            report.add(
                    rms > 10
                            ? "weights are larger than those of trained models"
                            : "weights are smaller than those of trained models",
                    weight.weight().name(),
                    String.format(Locale.ROOT, "root mean square %.3g", rms));
        }
    }

    /** Weights of one code only. */
    static final WeightRule CONSTANT = Demand.warning("weight-constant", Consumer.OF_CHECKPOINTS)
            .text("A weight has more than one value.")
            .fix("export it again; memory that was never written looks like this")
            .source("amd/Quark#42, NVIDIA/Model-Optimizer#1397")
            .onWeights(WeightValueRules::constant);

    private static void constant(WeightFacts weight, CheckpointSubject subject, Report report) {
        if (weight.histogram().distinct() == 1 && weight.histogram().total() > 1) {
            report.add("all codes of a weight are the same", weight.weight().name(), "");
        }
    }

    /** Blocks of nothing but zeros. */
    static final WeightRule ZERO_BLOCKS = Demand.advice("weight-zero-blocks", Consumer.OF_CHECKPOINTS)
            .text("Few blocks of a weight are all zeros: many mean that small ones were rounded away.")
            .fix("use smaller blocks, or scales of a type with more range")
            .source("NVIDIA/Model-Optimizer#1397, NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py")
            .onWeights(WeightValueRules::zeroBlocks);

    private static final double MANY_ZERO_BLOCKS = 0.01;

    private static void zeroBlocks(WeightFacts weight, CheckpointSubject subject, Report report) {
        if (weight.blocks() > 1
                && weight.zeroBlocks() > MANY_ZERO_BLOCKS * weight.blocks()
                && weight.histogram().distinct() > 1) {
            report.add(
                    "many blocks of a weight are all zeros",
                    weight.weight().name(),
                    weight.zeroBlocks() + " of " + weight.blocks());
        }
    }

    /** Codes at the end of their range. */
    static final WeightRule SATURATED = Demand.warning("weight-saturated", Consumer.OF_CHECKPOINTS)
            .text("Few codes have the largest magnitude: many mean that scales are too small and values were cut.")
            .fix("quantise again with scale = amax / 448")
            .source("NVIDIA/Model-Optimizer#1397")
            .onWeights(WeightValueRules::saturated);

    /** Each block has its largest at the end of the range, and by chance two more. */
    private static final int PER_BLOCK = 3;

    private static final double MANY_SATURATED = 0.01;

    private static void saturated(WeightFacts weight, CheckpointSubject subject, Report report) {
        boolean eightBits = weight.weight().codes() != QuantType.E2M1; // of sixteen numbers, the last is a common one
        long limit = Math.max(PER_BLOCK * weight.blocks(), (long)
                (MANY_SATURATED * weight.histogram().total()));
        if (eightBits && weight.blocks() > 0 && weight.atLimit() > limit) {
            report.add(
                    "many codes of a weight are at the end of their range",
                    weight.weight().name(),
                    weight.atLimit() + " of " + weight.histogram().total());
        }
    }

    /** Weights that use little of their codes' range. */
    static final WeightRule UNDERUSED = Demand.advice("weight-underused", Consumer.OF_CHECKPOINTS)
            .text("The largest code of a weight is near the end of its range: otherwise precision at the small"
                    + " end is lost.")
            .fix("quantise again with scale = amax / 448")
            .source("NVIDIA/Model-Optimizer:modelopt/onnx/quantization/fp8.py")
            .onWeights(WeightValueRules::underused);

    private static void underused(WeightFacts weight, CheckpointSubject subject, Report report) {
        float range = weight.weight().codes().maxValue();
        float largest = weight.largest();
        // scales that are powers of two leave up to half of the range
        if (largest > 0 && largest < 0.49f * range && weight.histogram().distinct() > 1) {
            report.add(
                    "a weight uses less than half of its codes' range",
                    weight.weight().name(),
                    "largest " + largest + " of " + range);
        }
    }

    private WeightValueRules() {}
}
