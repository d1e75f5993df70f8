package dev.octet.converter.verify;

import dev.octet.quant.layout.CacheSide;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** Attention without the KV scales that are promised. */
final class KvScaleMissing extends CheckpointRule {
    KvScaleMissing() {
        super(
                "kv-scale-missing",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "Where the KV cache is quantised statically, or any attention layer has k_scale or v_scale, every one"
                        + " has both: the engines take 1.0 for a missing one.",
                "calibrate the KV cache, or remove kv_cache_scheme / kv_cache_quant_algo",
                "vllm-project/vllm#54623, vllm-project/vllm#25047, vllm-project/llm-compressor#2176,"
                        + " vllm-project/vllm#34863");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        Set<String> attentions = KvScales.attentions(subject);
        if (!KvScales.promised(subject) && !KvScales.present(subject, attentions)) {
            return;
        }
        for (String attention : attentions) {
            List<String> missing = new ArrayList<>();
            for (CacheSide side : CacheSide.values()) {
                if (KvScales.of(subject, attention, side).isEmpty()) {
                    missing.add(side.label() + "_scale");
                }
            }
            if (!missing.isEmpty()) {
                findings.add(
                        this, "an attention layer has no KV scale", attention, String.join(", ", missing) + " missing");
            }
        }
    }
}
