package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** Static scales of activations. */
final class InputScaleRules {
    /** Static schemes without the scale of an input. */
    static final CheckpointRule MISSING = Demand.error("input-scale-missing", Consumer.OF_CHECKPOINTS)
            .text("Where activations are quantised statically, every Linear has its input scale: without it"
                    + " vLLM computes with uninitialised memory.")
            .fix("calibrate, or switch to dynamic activations")
            .source("vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py, vllm-project/vllm#54444")
            .onCheckpoints(InputScaleRules::missing);

    /** Takes a missing scale for a dynamic one. */
    private static final Set<Consumer> LENIENT = EnumSet.of(Consumer.TENSORRT_LLM, Consumer.TRANSFORMERS);

    private static void missing(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> !isExpert(l))
                .filter(l -> isMissing(l, subject))
                .forEach(l -> {
                    report.add(
                            Severity.ERROR,
                            Consumer.VLLM_LIKE,
                            "activations are quantised statically, and an input scale is missing",
                            l.module(),
                            "");
                    report.add(
                            l.isPacked() ? Severity.ERROR : Severity.WARNING,
                            LENIENT,
                            "activations are quantised statically, and an input scale is missing",
                            l.module(),
                            "");
                });
    }

    /** Whether the configuration promises an input scale that is not there. */
    private static boolean isMissing(LayerTensors layer, CheckpointSubject subject) {
        QuantSettings.Group group = subject.settings().group(layer.module());
        return group != null
                && group.inputs() != null
                && promised(group.inputs())
                && layer.first(LayerTensors.INPUT_SCALES).isEmpty()
                && LayerTensors.INPUT_SCALES.stream().noneMatch(s -> subject.lost(layer.module() + "." + s));
    }

    /** Four-bit floats with local scales have a static one above them. */
    private static boolean promised(QuantSettings.Operand inputs) {
        return inputs.dynamic() == QuantSettings.Dynamic.STATIC
                || (inputs.dynamic() == QuantSettings.Dynamic.LOCAL && inputs.isFloat4());
    }

    /** Experts without the scale of their input. */
    static final CheckpointRule OF_EXPERTS = Demand.error("expert-input-scale", Consumer.OF_CHECKPOINTS)
            .text("Every expert has an input scale, also those that calibration never reached.")
            .fix("give experts without one the largest of their siblings' scales; calibrate with more samples")
            .source("vllm-project/vllm#45212, vllm-project/vllm#45320, vllm-project/vllm#54444")
            .onCheckpoints(InputScaleRules::ofExperts);

    private static void ofExperts(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(InputScaleRules::isExpert)
                .filter(l -> isMissing(l, subject))
                .forEach(l -> report.add("an expert has no input scale", l.module(), ""));
    }

    private static boolean isExpert(LayerTensors layer) {
        return layer.module().toLowerCase(Locale.ROOT).contains("experts.");
    }

    private InputScaleRules() {}
}
