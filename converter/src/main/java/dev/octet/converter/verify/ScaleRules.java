package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import java.util.List;

/** Scales and the weights they belong to. */
final class ScaleRules {
    /** Codes without a scale. */
    static final CheckpointRule MISSING = Demand.error("scale-missing", Consumer.OF_CHECKPOINTS)
            .text("Every weight of 8-bit floats or smaller codes has a scale: loaders leave a missing one"
                    + " uninitialised.")
            .fix("restore the scale from the export it came from, or quantise the weight again")
            .source("amd/Quark#42, vllm-project/vllm#54556, unslothai/unsloth#6200, leejet/stable-diffusion.cpp#1898")
            .onCheckpoints(ScaleRules::missing);

    private static void missing(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> l.first(LayerTensors.WEIGHT_SCALES).isEmpty())
                .filter(l -> LayerTensors.WEIGHT_SCALES.stream().noneMatch(s -> subject.lost(l.module() + "." + s)))
                .forEach(l -> report.add("a quantised weight has no scale", l.weightName(), ""));
    }

    /** Two scales for one weight. */
    static final CheckpointRule AMBIGUOUS = Demand.error("scale-double", Consumer.OF_CHECKPOINTS)
            .text("A weight has one tensor of scales: of two, loaders take different ones.")
            .fix("keep the one that its quant_method names, and remove the other")
            .source("amd/Quark#42, vllm-project/vllm#54556")
            .onCheckpoints(ScaleRules::ambiguous);

    private static void ambiguous(CheckpointSubject subject, Report report) {
        subject.quantized().forEach(layer -> {
            List<String> found =
                    LayerTensors.WEIGHT_SCALES.stream().filter(layer::has).toList();
            if (found.size() > 1) {
                report.add("a weight has two tensors of scales", layer.weightName(), String.join(", ", found));
            }
        });
    }

    /** Scales without a weight. */
    static final CheckpointRule ORPHAN = Demand.error("scale-orphan", Consumer.OF_CHECKPOINTS)
            .text("Every scale has its weight, stored as codes.")
            .fix("restore the weight, or remove the scale with it")
            .source("amd/Quark#42, vllm-project/vllm#54556")
            .onCheckpoints(ScaleRules::orphan);

    private static void orphan(CheckpointSubject subject, Report report) {
        subject.scales().filter(s -> s.ofWeight() || s.ofInput()).forEach(s -> orphan(s, subject, report));
    }

    private static void orphan(CheckpointSubject.Scale scale, CheckpointSubject subject, Report report) {
        StoredTensor weight = scale.layer().weight();
        if (weight == null && !subject.lost(scale.layer().module() + ".weight")) {
            report.add("a scale has no weight", scale.tensor().name(), "");
        } else if (scale.ofWeight() && scale.layer().isPlain()) {
            report.add(
                    "a weight with a scale is not stored as codes",
                    scale.layer().weightName(),
                    String.valueOf(
                            scale.layer().weight() == null
                                    ? ""
                                    : scale.layer().weight().dtype()));
        }
    }

    /** Scales of names that no loader knows. */
    static final CheckpointRule UNKNOWN = Demand.warning("scale-unknown", Consumer.OF_CHECKPOINTS)
            .text("Scales have names that loaders know: an unknown name is ignored, or stops the loading.")
            .fix("rename it to what its quant_method calls it: weight_scale, weight_scale_inv, input_scale, k_scale,"
                    + " v_scale")
            .source("vllm-project/vllm#32859, vllm-project/vllm#5353")
            .onCheckpoints(ScaleRules::unknown);

    private static void unknown(CheckpointSubject subject, Report report) {
        for (LayerTensors layer : subject.layers().values()) {
            for (LayerTensors.Part part : layer.parts()) {
                if (isUnknown(part.name(), part.tensor())) {
                    report.add(
                            "a scale has a name that loaders do not know",
                            part.tensor().name(),
                            "");
                }
            }
        }
    }

    private static boolean isUnknown(String part, StoredTensor tensor) {
        boolean scale = part.endsWith("_scale") || part.endsWith("_scale_inv") || part.endsWith("_scales");
        return scale
                && tensor.dtype().isFloat()
                && !LayerTensors.WEIGHT_SCALES.contains(part)
                && !LayerTensors.GLOBAL_SCALES.contains(part)
                && !LayerTensors.INPUT_SCALES.contains(part)
                && !LayerTensors.OTHER_SCALES.contains(part);
    }

    private ScaleRules() {}
}
