package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Set;

/** Methods that a consumer does not load. */
final class MethodSupported extends CheckpointRule {
    MethodSupported() {
        super(
                "method-supported",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "The consumer loads checkpoints of this quant_method and scheme.",
                "convert the checkpoint to a layout that its consumer loads: octet convert",
                "NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py, NVIDIA/TensorRT-LLM#17723,"
                        + " huggingface/transformers:src/transformers/utils/quantization_config.py,"
                        + " pytorch/ao:torchao/prototype/safetensors/safetensors_utils.py");
    }

    private static final Set<Consumer> TRANSFORMERS = EnumSet.of(Consumer.TRANSFORMERS);
    private static final Set<Consumer> TENSORRT_LLM = EnumSet.of(Consumer.TENSORRT_LLM);

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.quantized().findAny().isEmpty()) {
            return;
        }
        QuantSettings settings = subject.settings();
        String where = "quant_method " + settings.json().path("quant_method").asText("");
        switch (settings.method()) {
            case MODELOPT ->
                findings.add(this, Severity.ERROR, TRANSFORMERS, "transformers has no loader for modelopt", where, "");
            case COMPRESSED_TENSORS ->
                findings.add(
                        this,
                        Severity.ADVICE,
                        TENSORRT_LLM,
                        "TensorRT-LLM loads compressed-tensors in part; modelopt is its own layout",
                        where,
                        "");
            case FP8 -> {
                if (settings.groups().stream()
                        .anyMatch(g -> g.weights() != null && g.weights().rows() == 0)) {
                    findings.add(
                            this, Severity.ERROR, TENSORRT_LLM, "TensorRT-LLM loads fp8 with blocks only", where, "");
                }
            }
            case OTHER ->
                findings.add(
                        this,
                        Severity.WARNING,
                        consumers(),
                        "the quantisation method is none that is known here",
                        where,
                        "");
            case NONE -> {}
        }
    }
}
