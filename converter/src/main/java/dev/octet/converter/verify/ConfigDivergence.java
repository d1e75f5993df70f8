package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.Locale;
import java.util.TreeSet;

/** config.json and hf_quant_config.json that differ. */
final class ConfigDivergence extends CheckpointRule {
    ConfigDivergence() {
        super(
                "config-divergence",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "config.json and hf_quant_config.json say the same: TensorRT-LLM believes the second, vLLM the first.",
                "write both from one export",
                "NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        ObjectNode beside = subject.quantConfig();
        JsonNode inside = QuantSettings.inConfig(subject.config());
        if (beside == null || !inside.isObject()) {
            return;
        }
        JsonNode quantization = beside.path("quantization");
        String mine = algorithm(inside);
        String theirs = algorithm(quantization);
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            findings.add(
                    this,
                    "hf_quant_config.json lies beside a configuration of another method",
                    "config.json",
                    inside.path("quant_method").asText("") + " beside " + theirs);
            return;
        }
        if (!mine.equals(theirs)) {
            findings.add(
                    this, "the two configurations name different algorithms", "quant_algo", mine + " and " + theirs);
        }
        QuantSettings one = QuantSettings.of(subject.config(), null);
        QuantSettings other = QuantSettings.of(null, beside);
        if (!new TreeSet<>(one.exclusions()).equals(new TreeSet<>(other.exclusions()))) {
            findings.add(
                    this,
                    "the two configurations leave out different modules",
                    "ignore, exclude_modules",
                    one.exclusions().size() + " and " + other.exclusions().size() + " patterns");
        }
        boolean insideCache = inside.path("kv_cache_scheme").isObject()
                || inside.path("kv_cache_quant_algo").isTextual();
        if (insideCache != quantization.path("kv_cache_quant_algo").isTextual()) {
            findings.add(
                    this,
                    "the two configurations differ on the KV cache",
                    "kv_cache_scheme, kv_cache_quant_algo",
                    quantization.path("kv_cache_quant_algo").asText("none") + " in hf_quant_config.json");
        }
    }

    private static String algorithm(JsonNode json) {
        JsonNode inner = json.path("quantization").isObject() ? json.path("quantization") : json;
        return inner.path("quant_algo").asText("none").toUpperCase(Locale.ROOT);
    }
}
