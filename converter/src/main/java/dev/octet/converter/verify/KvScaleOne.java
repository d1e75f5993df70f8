package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.quant.layout.CacheSide;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;

/** KV scales that are all 1. */
final class KvScaleOne extends CheckpointRule {
    KvScaleOne() {
        super(
                "kv-scale-one",
                Severity.WARNING,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "KV scales come from calibration: all exactly 1 means that none was done.",
                "calibrate the KV cache, or leave it in 16 bits",
                "vllm-project/vllm#54623, vllm-project/vllm#25047, vllm-project/llm-compressor#2176");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        List<StoredTensor> scales = new ArrayList<>();
        for (String attention : KvScales.attentions(subject)) {
            for (CacheSide side : CacheSide.values()) {
                KvScales.of(subject, attention, side).ifPresent(scales::add);
            }
        }
        boolean allOne = !scales.isEmpty()
                && scales.stream()
                        .allMatch(s -> subject.values(s).map(ScaleFacts::allOne).orElse(false));
        if (allOne) {
            scales.forEach(s -> findings.add(this, "every KV scale is exactly 1", s.name(), ""));
        }
    }
}
