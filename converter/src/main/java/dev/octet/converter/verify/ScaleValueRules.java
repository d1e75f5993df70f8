package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import java.util.Locale;

/** Values of scales. */
final class ScaleValueRules {
    /** NaN and infinite scales. */
    static final CheckpointRule NOT_FINITE = Demand.error("scale-not-finite", Consumer.OF_CHECKPOINTS)
            .text("Every scale is a finite number; in E8M0, code 255 is NaN.")
            .fix("quantise the weight again; an amax of NaN or infinity comes from the weight itself")
            .source("NVIDIA/Model-Optimizer#1397, pytorch/ao#4713, sgl-project/sglang#25519, OCP Microscaling Formats"
                    + " v1.0 section 5.4.1")
            .onCheckpoints(ScaleValueRules::notFinite);

    private static void notFinite(CheckpointSubject subject, Report report) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.nan() + v.infinite() > 0) {
                        report.add(
                                "a scale is not a finite number",
                                s.tensor().name(),
                                v.nan() + " NaN, " + v.infinite() + " infinite of " + v.count());
                    }
                }));
    }

    /** Scales that are zero or negative. */
    static final CheckpointRule NOT_POSITIVE = Demand.error("scale-not-positive", Consumer.OF_CHECKPOINTS)
            .text("Every scale is above zero.")
            .fix("quantise the weight again; give a block of zeros the scale 1")
            .source("NVIDIA/Model-Optimizer#1397, pytorch/ao#4713")
            .onCheckpoints(ScaleValueRules::notPositive);

    private static void notPositive(CheckpointSubject subject, Report report) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.negative() == 0 && v.zero() > 0 && s.tensor().dtype() == DType.F8_E4M3FN) {
                        // NVFP4: next to a large block, a small one's scale rounds to zero, and so do its weights
                        report.add(
                                Severity.WARNING,
                                "a block scale is zero, and so are its weights",
                                s.tensor().name(),
                                v.zero() + " of " + v.count());
                    } else if (v.zero() + v.negative() > 0) {
                        report.add(
                                "a scale is zero or negative",
                                s.tensor().name(),
                                v.zero() + " zero, " + v.negative() + " negative of " + v.count());
                    }
                }));
    }

    /** Scales below the normal numbers of their type. */
    static final CheckpointRule SUBNORMAL = Demand.warning("scale-subnormal", Consumer.OF_CHECKPOINTS)
            .text("Scales are normal numbers: devices that flush subnormal numbers to zero lose the whole block.")
            .fix("store scales as F32, and give blocks of zeros the scale 1")
            .source("NVIDIA/Model-Optimizer#1397, pytorch/ao#4713")
            .onCheckpoints(ScaleValueRules::subnormal);

    private static void subnormal(CheckpointSubject subject, Report report) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.subnormal() > 0) {
                        report.add(
                                "a scale is below the normal numbers of its type",
                                s.tensor().name(),
                                v.subnormal() + " of " + v.count() + " "
                                        + s.tensor().dtype() + ", smallest " + v.min());
                    }
                }));
    }

    /** Scales too small or too large for any weight. */
    static final CheckpointRule ABSURD = Demand.warning("scale-absurd", Consumer.OF_CHECKPOINTS)
            .text("Scales are in the range that those of weights and activations can have: from 2^-80 to 2^60.")
            .fix("look at the weight: it is damaged, or its scale was written in another form")
            .source("NVIDIA/Model-Optimizer#1397, modular/modular#6600")
            .onCheckpoints(ScaleValueRules::absurd);

    private static void absurd(CheckpointSubject subject, Report report) {
        subject.scales()
                .forEach(s -> subject.values(s.tensor()).ifPresent(v -> {
                    if (v.absurd() > 0) {
                        report.add(
                                "a scale is too small or too large for any weight",
                                s.tensor().name(),
                                v.absurd() + " of " + v.count() + ", from " + v.min() + " to " + v.max());
                    }
                }));
    }

    /** Scales that are promised to be powers of two and are not. */
    static final CheckpointRule NOT_POWER_OF_TWO = Demand.error("scale-ue8m0", Consumer.OF_CHECKPOINTS)
            .text("With scale_fmt ue8m0 every block scale is a power of two: kernels keep its exponent only.")
            .fix("round the scales up to powers of two and quantise again, or set scale_fmt to float")
            .source("sgl-project/sglang#25519, sgl-project/sglang#28662,"
                    + " huggingface/transformers:src/transformers/integrations/finegrained_fp8.py")
            .onCheckpoints(ScaleValueRules::notPowerOfTwo);

    private static void notPowerOfTwo(CheckpointSubject subject, Report report) {
        if (!subject.settings().json().path("scale_fmt").asText("").equals("ue8m0")) {
            return;
        }
        subject.scales()
                .filter(CheckpointSubject.Scale::ofWeight)
                .forEach(s -> subject.values(s.tensor())
                        .filter(v -> v.notPowersOfTwo() > 0)
                        .ifPresent(v -> report.add(
                                "scales are declared to be powers of two, and some are not",
                                s.tensor().name(),
                                v.notPowersOfTwo() + " of " + v.count())));
    }

    /** Scales that look like the multiplier of quantisation, not that of dequantisation. */
    static final CheckpointRule DIRECTION = Demand.error("scale-direction", Consumer.OF_CHECKPOINTS)
            .text("A stored scale multiplies codes: amax / 448. With its reciprocal, weights are wrong by the"
                    + " square of the scale.")
            .fix("store the reciprocal of the scales")
            .source("vllm-project/vllm#36297, NVIDIA/TransformerEngine:transformer_engine/pytorch/module/base.py")
            .onCheckpoints(ScaleValueRules::direction);

    /** Typical scales above this would mean weights 448 times as large, which do not occur. */
    private static final double CERTAIN = 16;

    private static final double SUSPICIOUS = 2;

    private static void direction(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> !l.isPacked())
                .forEach(l -> l.first(LayerTensors.WEIGHT_SCALES).ifPresent(s -> direction(s, subject, report)));
    }

    private static void direction(StoredTensor scale, CheckpointSubject subject, Report report) {
        subject.values(scale).filter(v -> v.typical() > SUSPICIOUS).ifPresent(v -> {
            boolean certain = v.typical() > CERTAIN;
            report.add(
                    certain ? Severity.ERROR : Severity.WARNING,
                    certain ? "scales are reciprocals" : "scales are large: they may be reciprocals",
                    scale.name(),
                    String.format(Locale.ROOT, "typically %.4g", v.typical()));
        });
    }

    /** Global scales of NVFP4 that were written the other way round. */
    static final CheckpointRule GLOBAL_DIRECTION = Demand.error("global-scale-direction", Consumer.OF_CHECKPOINTS)
            .text("compressed-tensors stores the global scale of NVFP4 as a divisor (2688 / amax, far above 1),"
                    + " modelopt as a multiplier (amax / 2688, far below 1).")
            .fix("store the reciprocal")
            .source("modular/modular#6600,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/compressors/nvfp4/base.py,"
                    + " NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py")
            .onCheckpoints(ScaleValueRules::globalDirection);

    /** A weight with an amax beyond 2688 does not exist; nor does one below 1e-6 that matters. */
    private static final double BORDER = 1;

    private static void globalDirection(CheckpointSubject subject, Report report) {
        subject.quantized().filter(LayerTensors::isPacked).forEach(layer -> {
            globalDirection(layer, "weight_global_scale", true, subject, report);
            globalDirection(layer, "weight_scale_2", false, subject, report);
        });
    }

    private static void globalDirection(
            LayerTensors layer, String part, boolean divisor, CheckpointSubject subject, Report report) {
        StoredTensor scale = layer.part(part);
        if (scale == null) {
            return;
        }
        subject.values(scale).filter(ScaleFacts::sound).ifPresent(v -> {
            if (divisor ? v.max() < BORDER : v.min() > BORDER) {
                report.add(
                        divisor
                                ? "a global scale is a multiplier where a divisor is read"
                                : "a global scale is a divisor where a multiplier is read",
                        scale.name(),
                        v.min() + ", so the largest weight would be " + (divisor ? 2688 / v.min() : 2688 * v.min()));
            }
        });
    }

    private ScaleValueRules() {}
}
