package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Set;

/** Static schemes without the scale of an input. */
final class InputScaleMissing extends CheckpointRule {
    InputScaleMissing() {
        super(
                "input-scale-missing",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Where activations are quantised statically, every Linear has its input scale: vLLM computes with what"
                        + " was in memory.",
                "calibrate, or switch to dynamic activations",
                "vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py,"
                        + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py, vllm-project/vllm#54444");
    }

    /** Takes a missing scale for a dynamic one. */
    private static final Set<Consumer> LENIENT = EnumSet.of(Consumer.TENSORRT_LLM, Consumer.TRANSFORMERS);

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> !ExpertInputScale.isExpert(l))
                .filter(l -> isMissing(l, subject))
                .forEach(l -> {
                    findings.add(
                            this,
                            Severity.ERROR,
                            Consumer.VLLM_LIKE,
                            "activations are quantised statically, and an input scale is missing",
                            l.module(),
                            "");
                    findings.add(
                            this,
                            l.isPacked() ? Severity.ERROR : Severity.WARNING,
                            LENIENT,
                            "activations are quantised statically, and an input scale is missing",
                            l.module(),
                            "");
                });
    }

    /** Whether the configuration promises an input scale that is not there. */
    static boolean isMissing(LayerTensors layer, CheckpointSubject subject) {
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
}
