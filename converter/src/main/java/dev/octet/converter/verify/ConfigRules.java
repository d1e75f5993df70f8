package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;

/** Configuration: required entries and their spelling. */
final class ConfigRules {
    /** Quantised weights that no configuration speaks of. */
    static final CheckpointRule MISSING = Demand.error("config-missing", Consumer.OF_CHECKPOINTS)
            .text("A checkpoint with quantised weights describes them in quantization_config of config.json:"
                    + " without it their codes are read as values.")
            .fix("write quantization_config, or dequantise the weights")
            .source("leejet/stable-diffusion.cpp#1898,"
                    + " vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onCheckpoints(ConfigRules::missing);

    private static void missing(CheckpointSubject subject, Report report) {
        if (subject.settings().method() == QuantSettings.Method.NONE) {
            subject.quantized()
                    .forEach(l -> report.add(
                            subject.config() == null
                                    ? "quantised weights and no config.json"
                                    : "quantised weights and no quantization_config",
                            l.module(),
                            String.valueOf(l.weight() == null ? "" : l.weight().dtype())));
        }
    }

    /** config.json and hf_quant_config.json that differ. */
    static final CheckpointRule DIVERGENCE = Demand.error("config-divergence", Consumer.ENGINES)
            .text("config.json and hf_quant_config.json agree: TensorRT-LLM reads the second, vLLM the first.")
            .fix("write both from one export")
            .source("NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py")
            .onCheckpoints(ConfigRules::divergence);

    private static void divergence(CheckpointSubject subject, Report report) {
        ObjectNode modelOpt = subject.quantConfig();
        JsonNode inside = QuantSettings.inConfig(subject.config());
        if (modelOpt == null || !inside.isObject()) {
            return;
        }
        JsonNode quantization = modelOpt.path("quantization");
        String mine = algorithm(inside);
        String theirs = algorithm(quantization);
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            report.add(
                    "hf_quant_config.json and config.json name different methods",
                    "config.json",
                    inside.path("quant_method").asText("") + " and " + theirs);
            return;
        }
        if (!mine.equals(theirs)) {
            report.add("the two configurations name different algorithms", "quant_algo", mine + " and " + theirs);
        }
        QuantSettings one = QuantSettings.of(subject.config(), null);
        QuantSettings other = QuantSettings.of(null, modelOpt);
        if (!new TreeSet<>(one.exclusions()).equals(new TreeSet<>(other.exclusions()))) {
            report.add(
                    "the two configurations leave out different modules",
                    "ignore, exclude_modules",
                    one.exclusions().size() + " and " + other.exclusions().size() + " patterns");
        }
        boolean insideCache = inside.path("kv_cache_scheme").isObject()
                || inside.path("kv_cache_quant_algo").isTextual();
        if (insideCache != quantization.path("kv_cache_quant_algo").isTextual()) {
            report.add(
                    "the two configurations differ on the KV cache",
                    "kv_cache_scheme, kv_cache_quant_algo",
                    quantization.path("kv_cache_quant_algo").asText("none") + " in hf_quant_config.json");
        }
    }

    private static String algorithm(JsonNode json) {
        JsonNode inner = json.path("quantization").isObject() ? json.path("quantization") : json;
        return inner.path("quant_algo").asText("none").toUpperCase(Locale.ROOT);
    }

    /** ModelOpt checkpoints with one of their two configurations. */
    static final CheckpointRule QUANT_CONFIG_MISSING = Demand.warning("quant-config-missing", Consumer.ENGINES)
            .text("A modelopt checkpoint has hf_quant_config.json and quantization_config in config.json: versions of"
                    + " the engines read one or the other.")
            .fix("write both with the same contents")
            .source("NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py,"
                    + " NVIDIA/Model-Optimizer:modelopt/torch/export/convert_hf_config.py")
            .onCheckpoints(ConfigRules::quantConfigMissing);

    private static void quantConfigMissing(CheckpointSubject subject, Report report) {
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            return;
        }
        if (subject.quantConfig() == null) {
            report.add("there is no hf_quant_config.json", CheckpointSubject.QUANT_CONFIG, "");
        } else if (!QuantSettings.inConfig(subject.config()).isObject()) {
            report.add("config.json has no quantization_config", "config.json", "");
        }
    }

    /** Fields in schemes that compressed-tensors does not know. */
    static final CheckpointRule UNKNOWN_KEYS = Demand.error(
                    "unknown-keys", Consumer.VLLM, Consumer.SGLANG, Consumer.TRANSFORMERS)
            .text("Schemes and their operands have no fields but their own: compressed-tensors refuses unknown ones.")
            .fix("remove the fields")
            .source("vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_scheme.py,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_args.py")
            .onCheckpoints(ConfigRules::unknownKeys);

    private static final Set<String> SCHEME =
            Set.of("targets", "weights", "input_activations", "output_activations", "format");

    private static final Set<String> OPERAND = Set.of(
            "num_bits",
            "type",
            "symmetric",
            "group_size",
            "strategy",
            "block_structure",
            "dynamic",
            "actorder",
            "scale_dtype",
            "zp_dtype",
            "observer",
            "observer_kwargs");

    private static void unknownKeys(CheckpointSubject subject, Report report) {
        if (subject.settings().method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        for (var group : subject.settings().json().path("config_groups").properties()) {
            String path = "config_groups." + group.getKey();
            unknownKeys(path, group.getValue(), SCHEME, report);
            for (String operand : new String[] {"weights", "input_activations", "output_activations"}) {
                unknownKeys(path + "." + operand, group.getValue().path(operand), OPERAND, report);
            }
        }
    }

    private static void unknownKeys(String path, JsonNode json, Set<String> known, Report report) {
        json.properties().forEach(field -> {
            if (!known.contains(field.getKey())) {
                report.add("a scheme has a field that is not known", path + "." + field.getKey(), "");
            }
        });
    }

    /** The name of the only group of a compressed-tensors configuration. */
    static final CheckpointRule GROUP_NAME = Demand.warning("group-name", Consumer.TENSORRT_LLM)
            .text("The only group of config_groups is called group_0: TensorRT-LLM looked for no other name.")
            .fix("rename the group to group_0")
            .source("NVIDIA/TensorRT-LLM#15415, NVIDIA/TensorRT-LLM#17723")
            .onCheckpoints(ConfigRules::groupName);

    private static void groupName(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.COMPRESSED_TENSORS
                && settings.groups().stream().noneMatch(g -> g.name().equals("group_0"))) {
            settings.groups().forEach(g -> report.add("no group is called group_0", "config_groups." + g.name(), ""));
        }
    }

    /** The activation scheme of an fp8 configuration. */
    static final CheckpointRule ACTIVATION_SCHEME = Demand.error("activation-scheme", Consumer.VLLM_LIKE)
            .text("An fp8 configuration names its activation_scheme, and with blocks it is dynamic.")
            .fix("set \"activation_scheme\": \"dynamic\", or static with per-tensor scales and calibrated inputs")
            .source("vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onCheckpoints(ConfigRules::activationScheme);

    private static void activationScheme(CheckpointSubject subject, Report report) {
        if (subject.settings().method() != QuantSettings.Method.FP8) {
            return;
        }
        String scheme = subject.settings().json().path("activation_scheme").asText("");
        boolean blocks = subject.settings().groups().stream()
                .anyMatch(g -> g.weights() != null && g.weights().rows() > 0);
        if (!scheme.equals("static") && !scheme.equals("dynamic")) {
            report.add(
                    "the configuration does not say how activations are quantised",
                    "quantization_config.activation_scheme",
                    scheme.isEmpty() ? "missing" : scheme);
        } else if (blocks && scheme.equals("static")) {
            report.add("blocks go with dynamic activations only", "quantization_config.activation_scheme", scheme);
        }
    }

    /** Fields of a ModelOpt configuration that vLLM needs for MXFP8. */
    static final CheckpointRule MODELOPT_KEYS = Demand.error("modelopt-keys", Consumer.VLLM_LIKE)
            .text("hf_quant_config.json of an MXFP8 checkpoint has kv_cache_quant_algo and exclude_modules,"
                    + " even if only as null and [].")
            .fix("add \"kv_cache_quant_algo\": null and \"exclude_modules\": []")
            .source("vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py")
            .onCheckpoints(ConfigRules::modeloptKeys);

    private static void modeloptKeys(CheckpointSubject subject, Report report) {
        if (subject.quantConfig() == null || !subject.settings().algorithm().equals("MXFP8")) {
            return;
        }
        JsonNode quantization = subject.quantConfig().path("quantization");
        for (String key : new String[] {"kv_cache_quant_algo", "exclude_modules"}) {
            if (!quantization.has(key)) {
                report.add("a field is missing", CheckpointSubject.QUANT_CONFIG, "quantization." + key);
            }
        }
    }

    /** Block sizes that a consumer does not know. */
    static final CheckpointRule BLOCK_SIZE = Demand.error("block-size", Consumer.TENSORRT_LLM)
            .text("Blocks are 128 x 128: TensorRT-LLM supports no other size.")
            .fix("quantise with blocks of 128 x 128")
            .source("NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py")
            .onCheckpoints(ConfigRules::blockSize);

    private static void blockSize(CheckpointSubject subject, Report report) {
        for (QuantSettings.Group group : subject.settings().groups()) {
            QuantSettings.Operand weights = group.weights();
            if (weights != null && weights.rows() > 0 && (weights.rows() != 128 || weights.columns() != 128)) {
                report.add("blocks are not 128 x 128", group.name(), weights.rows() + " x " + weights.columns());
            }
        }
    }

    private ConfigRules() {}
}
