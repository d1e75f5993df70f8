package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.quant.layout.CacheSide;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Scales of the KV cache. */
final class KvScaleRules {
    /** Attention without the KV scales that are promised. */
    static final CheckpointRule MISSING = Demand.error("kv-scale-missing", Consumer.ENGINES)
            .text("Where the KV cache is quantised statically, or any attention layer has k_scale or v_scale, every one"
                    + " has both: the engines take 1.0 for a missing one.")
            .fix("calibrate the KV cache, or remove kv_cache_scheme / kv_cache_quant_algo")
            .source("vllm-project/vllm#54623, vllm-project/vllm#25047, vllm-project/llm-compressor#2176,"
                    + " vllm-project/vllm#34863")
            .onCheckpoints(KvScaleRules::missing);

    private static void missing(CheckpointSubject subject, Report report) {
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
                report.add("an attention layer has no KV scale", attention, String.join(", ", missing) + " missing");
            }
        }
    }

    /** KV scales that are all 1. */
    static final CheckpointRule ONE = Demand.warning("kv-scale-one", Consumer.ENGINES)
            .text("KV scales come from calibration: all exactly 1 means that the cache was not calibrated.")
            .fix("calibrate the KV cache, or leave it in 16 bits")
            .source("vllm-project/vllm#54623, vllm-project/vllm#25047, vllm-project/llm-compressor#2176")
            .onCheckpoints(KvScaleRules::one);

    private static void one(CheckpointSubject subject, Report report) {
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
            scales.forEach(s -> report.add("every KV scale is exactly 1", s.name(), ""));
        }
    }

    /** KV scales with more than one element. */
    static final CheckpointRule SHAPE = Demand.error("kv-scale-shape", Consumer.ENGINES)
            .text("A KV scale is one number, unless the scheme is by head.")
            .fix("write one scale per layer for K and one for V")
            .source("vllm-project/vllm#6738, vllm-project/vllm#6761")
            .onCheckpoints(KvScaleRules::shape);

    private static void shape(CheckpointSubject subject, Report report) {
        if (KvScales.byHead(subject)) {
            return;
        }
        for (String attention : KvScales.attentions(subject)) {
            for (CacheSide side : CacheSide.values()) {
                KvScales.of(subject, attention, side)
                        .filter(s -> s.shape().elementCount() != 1)
                        .ifPresent(s -> report.add(
                                "a KV scale is not one number",
                                s.name(),
                                s.shape().toString()));
            }
        }
    }

    private KvScaleRules() {}
}
