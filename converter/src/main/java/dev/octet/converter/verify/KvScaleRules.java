package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.checkpoint.HeadCounts;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.AttentionInput;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Scales of the KV cache and of queries. */
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
        if (!KvScales.promised(subject) && !KvScales.present(subject, attentions, AttentionInput.CACHED)) {
            return;
        }
        for (String attention : attentions) {
            List<String> missing = new ArrayList<>();
            for (AttentionInput input : AttentionInput.CACHED) {
                if (KvScales.of(subject, attention, input).isEmpty()) {
                    missing.add(input.label() + "_scale");
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
            for (AttentionInput input : AttentionInput.values()) {
                KvScales.of(subject, attention, input).ifPresent(scales::add);
            }
        }
        boolean allOne = !scales.isEmpty()
                && scales.stream()
                        .allMatch(s -> subject.values(s).map(ScaleFacts::allOne).orElse(false));
        if (allOne) {
            scales.forEach(s -> report.add("every KV scale is exactly 1", s.name(), ""));
        }
    }

    /** Scales of attention whose number is not what the configuration says. */
    static final CheckpointRule SHAPE = Demand.error("kv-scale-shape", Consumer.OF_CHECKPOINTS)
            .text("A scale of queries, keys or values is one number; where the strategy of kv_cache_scheme is"
                    + " attn_head, it is [heads, 1, 1]: num_attention_heads of queries, num_key_value_heads of"
                    + " keys and values.")
            .fix("write one scale per layer for each of them, or one for each head and \"strategy\": \"attn_head\"")
            .source("vllm-project/vllm#6738, vllm-project/vllm#6761, vllm-project/vllm#30141,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py")
            .onCheckpoints(KvScaleRules::shape);

    private static void shape(CheckpointSubject subject, Report report) {
        boolean byHead = KvScales.byHead(subject);
        Optional<HeadCounts> heads = HeadCounts.of(subject.config());
        for (String attention : KvScales.attentions(subject)) {
            for (AttentionInput input : AttentionInput.values()) {
                KvScales.of(subject, attention, input).ifPresent(scale -> {
                    if (byHead) {
                        shapeByHead(scale, heads.map(h -> h.of(input)), report);
                    } else if (scale.shape().elementCount() != 1) {
                        report.add(
                                "a scale of attention is not one number, and the configuration does not say attn_head",
                                scale.name(),
                                scale.shape().toString());
                    }
                });
            }
        }
    }

    private static void shapeByHead(StoredTensor scale, Optional<Integer> heads, Report report) {
        Shape shape = scale.shape();
        boolean fits = shape.rank() == 3
                && shape.dim(1) == 1
                && shape.dim(2) == 1
                && (heads.isEmpty() || shape.dim(0) == heads.orElseThrow());
        if (!fits) {
            report.add(
                    "the configuration says attn_head, and a scale of attention is not one for each head",
                    scale.name(),
                    shape + ", wanted [" + heads.map(String::valueOf).orElse("heads") + ", 1, 1]");
        }
    }

    /** Attention whose queries are to be quantised, and have no scale. */
    static final CheckpointRule QUERY_MISSING = Demand.error(
                    "query-scale-missing", Consumer.VLLM, Consumer.TRANSFORMERS)
            .text("Where a group of the configuration quantises attention, or any attention layer has q_scale, every"
                    + " one has it: vLLM takes 1.0 for a missing one, transformers whatever lies in memory.")
            .fix("calibrate attention, or remove its group of config_groups and every q_scale")
            .source("vllm-project/vllm#30141,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py")
            .onCheckpoints(KvScaleRules::queryMissing);

    private static void queryMissing(CheckpointSubject subject, Report report) {
        Set<String> attentions = KvScales.attentions(subject);
        boolean promised = subject.settings().attentionGroups().stream()
                .map(QuantSettings.Group::inputs)
                .anyMatch(i -> i != null && i.dynamic() == QuantSettings.Dynamic.STATIC);
        if (!promised && !KvScales.present(subject, attentions, List.of(AttentionInput.Q))) {
            return;
        }
        for (String attention : attentions) {
            if (KvScales.of(subject, attention, AttentionInput.Q).isEmpty()) {
                report.add("an attention layer has no scale of its queries", attention, "q_scale missing");
            }
        }
    }

    /** A KV cache scheme that engines refuse. */
    static final CheckpointRule SCHEME = Demand.error("kv-cache-scheme", Consumer.VLLM_LIKE)
            .text("kv_cache_scheme of compressed-tensors says float, 8 bits, symmetric, and strategy tensor or"
                    + " attn_head: vLLM refuses any other. SGLang leaves out the scales of any but tensor, with a"
                    + " warning.")
            .fix("write {\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"tensor\", \"symmetric\": true,"
                    + " \"dynamic\": false}")
            .source(
                    "vllm-project/vllm:vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py,"
                        + " vllm-project/vllm#45312, sgl-project/sglang#35455")
            .onCheckpoints(KvScaleRules::scheme);

    private static final Set<String> STRATEGIES = Set.of("tensor", "attn_head");

    private static void scheme(CheckpointSubject subject, Report report) {
        JsonNode scheme = subject.settings().json().path("kv_cache_scheme");
        if (subject.settings().method() != QuantSettings.Method.COMPRESSED_TENSORS || !scheme.isObject()) {
            return;
        }
        List<String> odd = new ArrayList<>();
        if (!scheme.path("type").asText("").equals("float")
                || scheme.path("num_bits").asInt(0) != 8) {
            odd.add(scheme.path("num_bits").asText("?") + "-bit "
                    + scheme.path("type").asText("int"));
        }
        if (!STRATEGIES.contains(scheme.path("strategy").asText(""))) {
            odd.add("strategy " + scheme.path("strategy").asText("missing"));
        }
        if (!scheme.path("symmetric").asBoolean(false)) {
            odd.add("symmetric " + scheme.path("symmetric").asText("missing"));
        }
        String path = "quantization_config.kv_cache_scheme";
        if (!odd.isEmpty()) {
            report.add(
                    Severity.ERROR,
                    EnumSet.of(Consumer.VLLM),
                    "the scheme of the KV cache is one that vLLM refuses",
                    path,
                    String.join(", ", odd));
        }
        if (!odd.isEmpty() || KvScales.byHead(subject)) {
            report.add(
                    Severity.WARNING,
                    EnumSet.of(Consumer.SGLANG),
                    "the scheme of the KV cache is one whose scales SGLang leaves out",
                    path,
                    scheme.path("strategy").asText("no strategy"));
        }
    }

    /** Groups that quantise attention in a way that readers refuse or take for something else. */
    static final CheckpointRule GROUP = Demand.error("attention-group", Consumer.VLLM, Consumer.TRANSFORMERS)
            .text("A group that quantises attention has one target, a class whose name ends in Attention, the operand"
                    + " input_activations alone, and kv_cache_scheme says the same as that; q_scale has such a group.")
            .fix("write a group for the class alone, without weights and outputs, and the same operand as"
                    + " kv_cache_scheme")
            .source(
                    "vllm-project/vllm:vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/apply.py")
            .onCheckpoints(KvScaleRules::group);

    private static final List<String> SAME = List.of("num_bits", "type", "strategy", "symmetric", "dynamic");

    private static void group(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        if (settings.method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        List<QuantSettings.Group> groups = settings.attentionGroups();
        if (groups.isEmpty() && KvScales.present(subject, KvScales.attentions(subject), List.of(AttentionInput.Q))) {
            report.add("there are scales of queries, and no group quantises attention", "config_groups", "");
        }
        JsonNode cache = settings.json().path("kv_cache_scheme");
        for (QuantSettings.Group group : groups) {
            JsonNode json = settings.json().path("config_groups").path(group.name());
            String path = "config_groups." + group.name();
            if (group.targets().size() != 1) {
                report.add(
                        "a group of attention has other targets, so that vLLM takes it for one of weights",
                        path,
                        group.targets().size() + " targets");
            }
            if (json.path("weights").isObject()
                    || json.path("output_activations").isObject()) {
                report.add("a group of attention quantises weights or outputs", path, "");
            }
            if (!cache.isObject()) {
                report.add("attention is quantised, and kv_cache_scheme does not say so", path, "");
                continue;
            }
            JsonNode inputs = json.path("input_activations");
            List<String> different = SAME.stream()
                    .filter(key -> !value(inputs, key).equals(value(cache, key)))
                    .map(key -> key + " " + value(inputs, key) + " and " + value(cache, key))
                    .toList();
            if (!different.isEmpty()) {
                report.add(
                        "a group of attention and kv_cache_scheme say different things",
                        path,
                        String.join(", ", different));
            }
        }
    }

    /** As compressed-tensors takes what is not there. */
    private static String value(JsonNode operand, String key) {
        String absent = switch (key) {
            case "num_bits" -> "8";
            case "type" -> "int";
            case "strategy" -> "tensor";
            case "symmetric" -> "true";
            default -> "false";
        };
        return operand.path(key).asText(absent);
    }

    private KvScaleRules() {}
}
