package dev.octet.converter.verify;

import dev.octet.quant.layout.CacheSide;
import java.util.EnumSet;

/** KV scales with more than one element. */
final class KvScaleShape extends CheckpointRule {
    KvScaleShape() {
        super(
                "kv-scale-shape",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "A KV scale is one number, unless the scheme is by head.",
                "write one scale per layer for K and one for V",
                "vllm-project/vllm#6738, vllm-project/vllm#6761");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (KvScales.byHead(subject)) {
            return;
        }
        for (String attention : KvScales.attentions(subject)) {
            for (CacheSide side : CacheSide.values()) {
                KvScales.of(subject, attention, side)
                        .filter(s -> s.shape().elementCount() != 1)
                        .ifPresent(s -> findings.add(
                                this,
                                "a KV scale is not one number",
                                s.name(),
                                s.shape().toString()));
            }
        }
    }
}
