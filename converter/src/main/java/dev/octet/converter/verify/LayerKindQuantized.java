package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.TensorRole;

/** Norms, embeddings and routers that are quantised. */
final class LayerKindQuantized extends CheckpointRule {
    LayerKindQuantized() {
        super(
                "layer-kind",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Norms, embeddings and routers are not quantised: no consumer has a form for quantised norms, and"
                        + " routers choose other experts.",
                "put back the 16-bit weights of these layers",
                "vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py,"
                        + " NVIDIA/Model-Optimizer:modelopt/torch/export/unified_export_hf.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized().forEach(layer -> {
            TensorRole role = layer.role();
            String what = switch (role) {
                case NORM -> "a norm is quantised";
                case EMBEDDING -> "an embedding is quantised";
                case ROUTER -> "a router is quantised";
                case LINEAR, FUSED_EXPERTS, HEAD, OTHER -> "";
            };
            if (!what.isEmpty()) {
                findings.add(this, what, layer.module(), "");
            }
        });
    }
}
