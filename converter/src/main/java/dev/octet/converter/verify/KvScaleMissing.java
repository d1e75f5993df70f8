package dev.octet.converter.verify;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;

/** Attention without the KV scales that are promised. */
final class KvScaleMissing extends CheckpointRule {
    KvScaleMissing() {
        super(
                "kv-scale-missing",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "Where the KV cache is quantised statically, every attention layer has k_scale and v_scale: the"
                        + " engines take 1.0 for a missing one.",
                "calibrate the KV cache, or remove kv_cache_scheme / kv_cache_quant_algo",
                "vllm-project/vllm#54623, vllm-project/vllm#25047, vllm-project/llm-compressor#2176,"
                        + " vllm-project/vllm#34863");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (!KvScales.promised(subject)) {
            return;
        }
        for (String attention : KvScales.attentions(subject)) {
            List<String> missing = new ArrayList<>();
            for (String side : List.of("k", "v")) {
                if (KvScales.of(subject, attention, side).isEmpty()) {
                    missing.add(side + "_scale");
                }
            }
            if (!missing.isEmpty()) {
                findings.add(
                        this, "an attention layer has no KV scale", attention, String.join(", ", missing) + " missing");
            }
        }
    }
}
