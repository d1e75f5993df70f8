package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.verify.GoodCheckpoint.Kind;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each rule of checkpoints against a checkpoint with its fault and nothing else wrong. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RuleTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String K = "model.layers.0.self_attn.k_proj";
    private static final String O = "model.layers.0.self_attn.o_proj";
    private static final String DOWN = "model.layers.0.mlp.down_proj";
    private static final String EXPERT = "model.layers.1.block_sparse_moe.experts.1.w1";
    private static final String FIRST_FILE = "model-00001-of-00002.safetensors";
    private static final String INDEX = "model.safetensors.index.json";

    @TempDir
    Path folder;

    @TempDir
    Path originalFolder;

    /** Changes a checkpoint before it is written. */
    interface Plant {
        void accept(GoodCheckpoint model);
    }

    /** Changes JSON. */
    interface Edit {
        void accept(ObjectNode json);
    }

    /** Changes files after they were written. */
    interface Damage {
        void to(Path folder) throws IOException;
    }

    /**
     * A fault.
     *
     * @param plant changes the good checkpoint before it is written
     * @param damage changes its files
     * @param options from the usual ones, with the consumers of the kind
     * @param also rules that a checkpoint with this fault cannot but break, too
     */
    record Fault(
            String rule,
            Severity severity,
            Kind kind,
            Plant plant,
            Damage damage,
            UnaryOperator<VerifyOptions> options,
            Set<String> also) {
        Fault also(String... rules) {
            return new Fault(rule, severity, kind, plant, damage, options, Set.of(rules));
        }

        Fault with(UnaryOperator<VerifyOptions> changed) {
            return new Fault(rule, severity, kind, plant, damage, changed, also);
        }

        Fault readBy(Consumer... readers) {
            return with(o -> o.withConsumers(Set.of(readers)));
        }

        @Override
        public String toString() {
            return rule + " " + severity + " in " + kind;
        }
    }

    private static Fault error(String rule, Kind kind, Plant plant) {
        return fault(rule, Severity.ERROR, kind, plant);
    }

    private static Fault warning(String rule, Kind kind, Plant plant) {
        return fault(rule, Severity.WARNING, kind, plant);
    }

    private static Fault advice(String rule, Kind kind, Plant plant) {
        return fault(rule, Severity.ADVICE, kind, plant);
    }

    private static Fault fault(String rule, Severity severity, Kind kind, Plant plant) {
        return new Fault(rule, severity, kind, plant, f -> {}, o -> o, Set.of());
    }

    private static Fault damaged(String rule, Severity severity, Damage damage) {
        return new Fault(rule, severity, Kind.FP8_BLOCK, m -> {}, damage, o -> o, Set.of());
    }

    static List<Fault> faults() {
        List<Fault> faults = new ArrayList<>();
        faults.addAll(faultsOfFiles());
        faults.addAll(faultsOfScales());
        faults.addAll(faultsOfNamesAndShapes());
        faults.addAll(faultsOfCaches());
        faults.addAll(faultsOfConfiguration());
        faults.addAll(faultsOfMethods());
        faults.addAll(faultsOfLayers());
        faults.addAll(faultsOfValues());
        faults.addAll(faultsBesideTheOriginal());
        return faults;
    }

    private static List<Fault> faultsOfFiles() {
        return List.of(
                damaged("file-malformed", Severity.ERROR, f -> truncate(f.resolve(FIRST_FILE), 100)),
                damaged(
                        "file-malformed",
                        Severity.ERROR,
                        f -> Files.writeString(f.resolve("hf_quant_config.json"), "{")),
                damaged("duplicate-key", Severity.ERROR, RuleTest::doubleFirstName),
                damaged("shard-missing", Severity.ERROR, f -> Files.delete(f.resolve(FIRST_FILE))),
                damaged("tensor-missing", Severity.ERROR, f -> index(f, map -> map.put("gone.weight", FIRST_FILE))),
                damaged("tensor-missing", Severity.ERROR, f -> index(f, map -> map.put("lm_head.weight", FIRST_FILE))),
                damaged("tensor-stale", Severity.ERROR, f -> index(f, map -> map.remove("lm_head.weight"))),
                damaged("tensor-twice", Severity.ERROR, RuleTest::copyHead).also("tensor-missing", "total-size"),
                damaged(
                        "file-unlisted",
                        Severity.WARNING,
                        f -> Files.copy(f.resolve(FIRST_FILE), f.resolve("consolidated.safetensors"))),
                new Fault("file-unlisted", Severity.ERROR, Kind.PLAIN, m -> {}, RuleTest::twoModels, o -> o, Set.of()),
                damaged(
                        "total-size",
                        Severity.ADVICE,
                        f -> rewriteIndex(f, i -> ((ObjectNode) i.path("metadata")).put("total_size", 5))),
                new Fault(
                        "file-format",
                        Severity.ERROR,
                        Kind.PLAIN,
                        m -> {},
                        f -> inFormat(f, "dcp-flat"),
                        o -> o,
                        Set.of()),
                new Fault(
                        "file-format",
                        Severity.WARNING,
                        Kind.PLAIN,
                        m -> {},
                        f -> inFormat(f, "shards"),
                        o -> o,
                        Set.of()),
                warning("format-metadata", Kind.PLAIN, m -> m.metadata.clear()));
    }

    /** Puts a checkpoint of torch in the place of the folder's safetensors. */
    private static void inFormat(Path folder, String name) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(f -> f.toString().contains("model")).toList()) {
                Files.delete(file);
            }
        }
        try (Stream<Path> files =
                Files.list(Path.of(System.getProperty("octet.testdata"), "checkpoints/torch", name))) {
            for (Path file : files.toList()) {
                Files.copy(file, folder.resolve(file.getFileName().toString()));
            }
        }
    }

    private static List<Fault> faultsOfScales() {
        return List.of(
                error("scale-missing", Kind.FP8_BLOCK, m -> m.remove(O + ".weight_scale_inv")),
                error("scale-missing", Kind.MODELOPT_NVFP4, m -> m.remove(EXPERT + ".weight_scale")),
                error("scale-orphan", Kind.FP8_BLOCK, m -> m.remove(O + ".weight")),
                error("scale-orphan", Kind.FP8_BLOCK, m -> m.zeros(O + ".weight", 256, 256))
                        .also("linear-not-quantized"),
                warning(
                        "scale-unknown",
                        Kind.CT_CHANNEL,
                        m -> m.put(O + ".act_scale", DType.F32, GoodCheckpoint.floats(1), 1)),
                error("scale-not-finite", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, Float.NaN)),
                error(
                        "scale-not-finite",
                        Kind.MODELOPT_FP8,
                        m -> m.set(O + ".input_scale", 0, Float.POSITIVE_INFINITY)),
                error(
                        "scale-not-finite",
                        Kind.CT_MXFP8,
                        m -> m.tensor(DOWN + ".weight_scale").bytes().put(77, (byte) 0xFF)),
                error("scale-not-positive", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 0)),
                error("scale-not-positive", Kind.MODELOPT_FP8, m -> m.set(K + ".k_scale", 0, -0.5f)),
                warning(
                        "scale-not-positive",
                        Kind.CT_NVFP4,
                        m -> m.tensor(O + ".weight_scale").bytes().put(5, (byte) 0)),
                warning("scale-subnormal", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 1e-40f)),
                warning("scale-absurd", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 1e-30f)),
                error("fused-partial", Kind.CT_CHANNEL, m -> plain(m, K, 128, 256))
                        .also("linear-not-quantized"),
                warning("fused-scales", Kind.CT_TENSOR, m -> m.set(K + ".weight_scale", 0, 0.001f)),
                advice("fused-scales", Kind.CT_TENSOR, m -> m.set(K + ".input_scale", 0, 0.001f)),
                error("fused-scales", Kind.MODELOPT_NVFP4, m -> m.set(K + ".weight_scale_2", 0, 1e-5f)));
    }

    private static List<Fault> faultsOfConfiguration() {
        return List.of(
                error("config-missing", Kind.FP8_BLOCK, m -> m.config().remove("quantization_config")),
                error("config-missing", Kind.CT_CHANNEL, m -> m.config = null),
                warning(
                        "exclude-unmatched",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add("model.vision")),
                warning(
                        "exclude-unmatched",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add("re:.*vision.*")),
                error(
                        "exclude-contradicted",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add(O)),
                error("linear-not-quantized", Kind.CT_CHANNEL, m -> plain(m, O, 256, 256)),
                error("linear-unstored", Kind.CT_CHANNEL, RuleTest::tieUnnamedHead),
                error("linear-unstored", Kind.MODELOPT_FP8, RuleTest::tieUnnamedHead),
                error("linear-unstored", Kind.CT_CHANNEL, m -> {
                    m.config().putArray("architectures").add("GPTNeoXForCausalLM");
                    m.rename("lm_head.weight", "embed_out.weight");
                    m.quantization().putArray("ignore").add("embed_out").add("re:.*gate$");
                }),
                error("experts-fused", Kind.CT_CHANNEL, m -> {
                    m.config().put("model_type", "llama4");
                    m.zeros("model.layers.0.feed_forward.experts.gate_up_proj", 2, 256, 256);
                    m.quantization().withArray("ignore").add("re:.*feed_forward.experts.*");
                }),
                error(
                        "linear-not-quantized",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").remove(0)));
    }

    /** The head is the embedding, and the list of modules to leave out does not name it. */
    private static void tieUnnamedHead(GoodCheckpoint model) {
        model.remove("lm_head.weight");
        model.config().put("tie_word_embeddings", true);
        List<ObjectNode> quantizations = model.quantConfig == null
                ? List.of(model.quantization())
                : List.of(model.quantization(), model.quantConfig());
        for (ObjectNode quantization : quantizations) {
            for (String list : List.of("ignore", "exclude_modules")) {
                if (quantization.path(list) instanceof ArrayNode names) {
                    names.removeIf(n -> n.asText().contains("lm_head"));
                }
            }
        }
    }

    private static List<Fault> faultsOfNamesAndShapes() {
        return List.of(
                error("scale-name", Kind.FP8_BLOCK, m -> m.renameAll(".weight_scale_inv", ".weight_scale")),
                error("scale-name", Kind.CT_TENSOR, m -> m.renameAll(".input_scale", ".activation_scale")),
                error(
                        "scale-double",
                        Kind.FP8_BLOCK,
                        m -> m.tensors.put(O + ".weight_scale", m.tensor(O + ".weight_scale_inv"))),
                error("input-scale-missing", Kind.MODELOPT_FP8, m -> m.remove(O + ".input_scale")),
                error("input-scale-missing", Kind.CT_NVFP4, m -> m.remove(O + ".input_global_scale")),
                error("expert-input-scale", Kind.MODELOPT_NVFP4, m -> m.remove(EXPERT + ".input_scale")),
                error("scale-shape", Kind.CT_CHANNEL, m -> m.reshape(O + ".weight_scale", 256)),
                error("scale-shape", Kind.MODELOPT_CHANNEL, m -> m.reshape(O + ".weight_scale", 256, 1)),
                error("scale-shape", Kind.MODELOPT_BLOCK, m -> m.reshape(O + ".weight_scale", 2, 2)),
                error("scale-shape", Kind.FP8_BLOCK, m -> m.reshape(DOWN + ".weight_scale_inv", 4, 2)),
                error("scale-shape", Kind.MODELOPT_NVFP4, m -> pad(m, O + ".weight_scale", 384, 16))
                        .also("scale-not-positive"),
                error("scale-1x1", Kind.CT_TENSOR, m -> m.reshape(O + ".weight_scale", 1, 1)),
                warning("scale-0d", Kind.CT_TENSOR, m -> m.reshape(O + ".weight_scale")),
                warning(
                        "scale-type",
                        Kind.MODELOPT_FP8,
                        m -> m.put(O + ".weight_scale", DType.F16, GoodCheckpoint.encoded(DType.F16, 0.01f))),
                warning(
                        "scale-type",
                        Kind.MODELOPT_FP8,
                        m -> m.put(O + ".weight_scale", DType.BF16, GoodCheckpoint.encoded(DType.BF16, 0.01f))),
                error(
                        "scale-type",
                        Kind.MODELOPT_FP8,
                        m -> m.put(
                                O + ".weight_scale",
                                DType.F64,
                                GoodCheckpoint.buffer(8).putDouble(0, 0.01))),
                warning("scale-e8m0-type", Kind.MODELOPT_MXFP8, m -> retype(m, O + ".weight_scale", DType.F8_E8M0)));
    }

    private static List<Fault> faultsOfCaches() {
        return List.of(
                error("kv-scale-missing", Kind.CT_TENSOR, m -> m.remove("model.layers.0.self_attn.k_scale")),
                error("kv-scale-missing", Kind.MODELOPT_FP8, m -> m.remove("model.layers.1.self_attn.v_proj.v_scale")),
                warning(
                        "kv-scale-one",
                        Kind.CT_TENSOR,
                        m -> m.tensors.forEach((name, tensor) -> {
                            if (name.endsWith(".k_scale") || name.endsWith(".v_scale")) {
                                tensor.bytes().putFloat(0, 1);
                            }
                        })),
                error(
                        "kv-scale-shape",
                        Kind.CT_TENSOR,
                        m -> m.put("model.layers.0.self_attn.k_scale", DType.F32, GoodCheckpoint.floats(1, 2), 2, 1)),
                ofAttention("kv-scale-shape", "tensor", m -> scales(m, "k", 2, 1, 1)),
                ofAttention("kv-scale-shape", "attn_head", m -> scales(m, "v", 1)),
                ofAttention("kv-scale-shape", "attn_head", m -> scales(m, "q", 2, 1, 1)),
                ofAttention("kv-scale-shape", "attn_head", m -> scales(m, "k", 2)),
                ofAttention("scale-not-positive", "attn_head", m -> m.set(ATTENTION + ".q_scale", 2, 0)),
                ofAttention("scale-not-finite", "attn_head", m -> m.set(ATTENTION + ".k_scale", 1, Float.NaN)),
                ofAttention("query-scale-missing", "attn_head", m -> m.remove(ATTENTION + ".q_scale")),
                ofAttention("query-scale-missing", "tensor", m -> {
                    m.remove(ATTENTION + ".q_scale");
                    m.remove("model.layers.1.self_attn.q_scale");
                }),
                ofAttention("attention-group", "tensor", m -> groups(m).remove("group_1")),
                ofAttention(
                        "attention-group",
                        "tensor",
                        m -> groups(m)
                                .withObject("group_1")
                                .withArray("targets")
                                .add("OtherAttention")),
                ofAttention(
                        "attention-group",
                        "tensor",
                        m -> groups(m)
                                .withObject("group_1")
                                .set(
                                        "weights",
                                        groups(m)
                                                .path("group_0")
                                                .path("weights")
                                                .deepCopy())),
                ofAttention(
                        "attention-group",
                        "attn_head",
                        m -> groups(m)
                                .withObject("group_1")
                                .withObject("input_activations")
                                .put("strategy", "tensor")),
                ofAttention("attention-group", "tensor", m -> m.quantization().putNull("kv_cache_scheme")),
                error("kv-cache-scheme", Kind.CT_TENSOR, m -> cache(m).put("num_bits", 4))
                        .readBy(Consumer.VLLM),
                error("kv-cache-scheme", Kind.CT_TENSOR, m -> cache(m).put("strategy", "channel"))
                        .readBy(Consumer.VLLM),
                error("kv-cache-scheme", Kind.CT_TENSOR, m -> cache(m).put("symmetric", false))
                        .readBy(Consumer.VLLM),
                warning("kv-cache-scheme", Kind.CT_TENSOR, m -> attention(m, "attn_head"))
                        .readBy(Consumer.SGLANG));
    }

    private static final String ATTENTION = "model.layers.0.self_attn";

    /** A fault in a checkpoint whose attention is quantised by this strategy. */
    private static Fault ofAttention(String rule, String strategy, Plant plant) {
        return error(rule, Kind.CT_TENSOR, m -> {
                    attention(m, strategy);
                    plant.accept(m);
                })
                .readBy(Consumer.VLLM, Consumer.TRANSFORMERS);
    }

    /** Quantises queries, too, all in this way; there are four heads of queries, two of keys and values. */
    private static void attention(GoodCheckpoint m, String strategy) {
        boolean heads = strategy.equals("attn_head");
        for (int layer = 0; layer < 2; layer++) {
            for (String input : List.of("q", "k", "v")) {
                long[] dims = heads ? new long[] {input.equals("q") ? 4 : 2, 1, 1} : new long[] {1};
                float[] values = new float[(int) dims[0]];
                Arrays.fill(values, 0.02f);
                m.put(
                        "model.layers." + layer + ".self_attn." + input + "_scale",
                        DType.F32,
                        GoodCheckpoint.floats(values),
                        dims);
            }
        }
        cache(m).put("strategy", strategy);
        ObjectNode group = groups(m).putObject("group_1");
        group.putArray("targets").add("MixtralAttention");
        group.set("input_activations", cache(m).deepCopy());
    }

    private static void scales(GoodCheckpoint m, String input, long... dims) {
        float[] values = new float[(int) dims[0]];
        Arrays.fill(values, 0.02f);
        m.put(ATTENTION + "." + input + "_scale", DType.F32, GoodCheckpoint.floats(values), dims);
    }

    private static ObjectNode cache(GoodCheckpoint m) {
        return (ObjectNode) m.quantization().path("kv_cache_scheme");
    }

    private static ObjectNode groups(GoodCheckpoint m) {
        return (ObjectNode) m.quantization().path("config_groups");
    }

    private static ObjectNode inputs(GoodCheckpoint m) {
        return (ObjectNode) m.quantization().path("config_groups").path("group_0");
    }

    /** Has one module called query_key_value in a model of this type. */
    private static void fused(GoodCheckpoint m, String type) {
        m.config().put("model_type", type);
        rename(m, O + ".", "model.layers.0.self_attention.query_key_value.");
    }

    private static void rename(GoodCheckpoint m, String from, String to) {
        for (String name : List.copyOf(m.tensors.keySet())) {
            if (name.startsWith(from)) {
                m.tensors.put(to + name.substring(from.length()), m.tensors.remove(name));
            }
        }
    }

    private static List<Fault> faultsOfMethods() {
        return List.of(
                error(
                        "weight-format",
                        Kind.CT_CHANNEL,
                        m -> m.tensors.put(O + ".weight", retyped(m, O + ".weight", DType.I8))),
                error(
                        "compressed-format",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().put("quantization_status", "frozen")),
                error(
                        "compressed-format",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().put("format", "mxfp8-quantized")),
                error(
                        "compressed-format",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().remove("format")),
                error("mx-or-fp8", Kind.MODELOPT_MXFP8, m -> {
                            m.quantConfig().put("quant_algo", "FP8_PER_CHANNEL_PER_TOKEN");
                            m.quantization().put("quant_algo", "FP8_PER_CHANNEL_PER_TOKEN");
                        })
                        .also("scale-shape"),
                error("scale-ue8m0", Kind.FP8_UE8M0, m -> m.set(O + ".weight_scale_inv", 0, 0.0003f)),
                error(
                        "fnuz",
                        Kind.CT_CHANNEL,
                        m -> m.tensors.put(O + ".weight", retyped(m, O + ".weight", DType.F8_E4M3FNUZ))),
                error(
                        "weight-e5m2",
                        Kind.CT_CHANNEL,
                        m -> m.tensors.put(O + ".weight", retyped(m, O + ".weight", DType.F8_E5M2))),
                error("method-supported", Kind.CT_MXFP8, m -> {}).readBy(Consumer.SGLANG),
                error("method-supported", Kind.MODELOPT_CHANNEL, m -> {}).readBy(Consumer.SGLANG),
                error("method-supported", Kind.MODELOPT_BLOCK, m -> {}).readBy(Consumer.SGLANG),
                error("method-supported", Kind.MODELOPT_MXFP8, m -> {}).readBy(Consumer.SGLANG),
                error("method-supported", Kind.CT_NVFP4, m -> inputs(m).putNull("input_activations"))
                        .readBy(Consumer.SGLANG),
                error("method-supported", Kind.CT_INT8, m -> inputs(m).putNull("input_activations"))
                        .readBy(Consumer.VLLM),
                error("layer-supported", Kind.FP8_BLOCK, m -> fused(m, "gpt_neox"))
                        .readBy(Consumer.VLLM),
                error("layer-supported", Kind.FP8_BLOCK, m -> fused(m, "falcon"))
                        .readBy(Consumer.VLLM),
                error("layer-supported", Kind.CT_NVFP4, m -> fused(m, "bloom")).readBy(Consumer.VLLM),
                error("layer-supported", Kind.CT_CHANNEL, m -> {
                            m.config().put("model_type", "mamba");
                            rename(m, O + ".", "model.layers.0.mixer.dt_proj.");
                        })
                        .readBy(Consumer.VLLM),
                warning("group-name", Kind.CT_CHANNEL, m -> {
                            ObjectNode groups = (ObjectNode) m.quantization().path("config_groups");
                            groups.set("attention", groups.remove("group_0"));
                        })
                        .readBy(Consumer.TENSORRT_LLM)
                        .also("method-supported"),
                error(
                                "block-size",
                                Kind.FP8_BLOCK,
                                m -> m.quantization()
                                        .putArray("weight_block_size")
                                        .add(64)
                                        .add(64))
                        .also("scale-shape"),
                error(
                        "config-divergence",
                        Kind.MODELOPT_FP8,
                        m -> m.quantConfig().put("quant_algo", "NVFP4")),
                error(
                        "config-divergence",
                        Kind.MODELOPT_FP8,
                        m -> m.quantConfig().putNull("kv_cache_quant_algo")),
                error(
                        "config-divergence",
                        Kind.MODELOPT_FP8,
                        m -> m.quantConfig().withArray("exclude_modules").remove(0)),
                error(
                        "config-divergence",
                        Kind.FP8_BLOCK,
                        m -> m.quantConfig = GoodCheckpoint.json("{\"quantization\":{\"quant_algo\":\"FP8\"}}")),
                warning("quant-config-missing", Kind.MODELOPT_FP8, m -> m.quantConfig = null),
                warning(
                        "quant-config-missing",
                        Kind.MODELOPT_FP8,
                        m -> m.config().remove("quantization_config")),
                error("unknown-keys", Kind.CT_CHANNEL, m -> m.group().put("octet", 1)),
                error(
                        "unknown-keys",
                        Kind.CT_CHANNEL,
                        m -> ((ObjectNode) m.group().path("weights")).put("scale_format", "f32")),
                error("activation-scheme", Kind.FP8_BLOCK, m -> m.quantization().remove("activation_scheme")),
                error("activation-scheme", Kind.FP8_BLOCK, m -> m.quantization().put("activation_scheme", "static"))
                        .also("input-scale-missing", "expert-input-scale"),
                error("modelopt-keys", Kind.MODELOPT_MXFP8, m -> m.quantConfig().remove("kv_cache_quant_algo")),
                error("method-supported", Kind.MODELOPT_FP8, m -> {}).readBy(Consumer.TRANSFORMERS),
                advice("method-supported", Kind.CT_CHANNEL, m -> {}).readBy(Consumer.TENSORRT_LLM),
                warning(
                        "method-supported",
                        Kind.FP8_BLOCK,
                        m -> m.quantization().put("quant_method", "quark")),
                error("method-supported", Kind.FP8_BLOCK, m -> m.quantization().remove("weight_block_size"))
                        .readBy(Consumer.TENSORRT_LLM)
                        .also("scale-shape"));
    }

    private static List<Fault> faultsOfLayers() {
        return List.of(
                error("block-remainder", Kind.FP8_BLOCK, RuleTest::overhang).also("tensor-parallel"),
                error("block-columns", Kind.CT_BLOCK, RuleTest::oneColumn).also("tensor-parallel"),
                warning("packed-kernel", Kind.CT_INT4, RuleTest::largerGroups).readBy(Consumer.VLLM, Consumer.SGLANG),
                error("tensor-parallel", Kind.FP8_BLOCK, m -> {}).with(o -> o.withTensorParallel(List.of(1, 2, 4))),
                error("tensor-parallel", Kind.CT_CHANNEL, m -> {})
                        .with(o -> o.withTensorParallel(List.of(8)).withConsumers(Set.of(Consumer.VLLM))),
                error("tied-embeddings", Kind.FP8_BLOCK, m -> {
                            m.config().put("tie_word_embeddings", true);
                            code(m, "lm_head");
                        })
                        .also("head-quantized"),
                warning("tied-embeddings", Kind.FP8_BLOCK, m -> m.config().put("tie_word_embeddings", true)),
                error("layer-kind", Kind.FP8_BLOCK, m -> code(m, "model.embed_tokens")),
                error("layer-kind", Kind.FP8_BLOCK, m -> code(m, "model.layers.1.block_sparse_moe.gate")),
                warning("head-quantized", Kind.FP8_BLOCK, m -> code(m, "lm_head")),
                error("experts-partial", Kind.CT_CHANNEL, m -> {
                            plain(m, EXPERT, 512, 256);
                            plain(m, EXPERT.replace("w1", "w3"), 512, 256);
                            plain(m, EXPERT.replace("w1", "w2"), 256, 512);
                        })
                        .also("linear-not-quantized"),
                warning("experts-fused", Kind.FP8_BLOCK, RuleTest::fuseExperts),
                warning(
                        "training-state",
                        Kind.CT_CHANNEL,
                        m -> m.put(O + "._extra_state", DType.U8, GoodCheckpoint.buffer(4), 4)));
    }

    private static List<Fault> faultsOfValues() {
        return List.of(
                error("global-scale-direction", Kind.CT_NVFP4, m -> reciprocals(m, ".weight_global_scale")),
                error("global-scale-direction", Kind.MODELOPT_NVFP4, m -> reciprocals(m, ".weight_scale_2")),
                error("scale-direction", Kind.FP8_BLOCK, m -> reciprocals(m, ".weight_scale_inv")),
                warning("scale-direction", Kind.MODELOPT_CHANNEL, m -> fill(m, O + ".weight_scale", 3)),
                deep(error(
                        "weight-nan",
                        Kind.FP8_BLOCK,
                        m -> m.tensor(O + ".weight").bytes().put(7, (byte) 0xFF))),
                deep(advice("weight-negative-zero", Kind.FP8_BLOCK, m -> codes(m, O, 10_000, 0x80))),
                deep(warning("weight-magnitude", Kind.MODELOPT_CHANNEL, m -> fill(m, O + ".weight_scale", 1e-8f))),
                deep(warning("weight-constant", Kind.FP8_BLOCK, m -> codes(m, O, 65_536, 0x08)))
                        .also("weight-underused"),
                deep(advice("weight-zero-blocks", Kind.MODELOPT_CHANNEL, m -> codes(m, O, 256 * 20, 0))),
                deep(warning("weight-saturated", Kind.FP8_BLOCK, m -> codes(m, O, 2_000, 0xFE))),
                deep(advice("weight-underused", Kind.MODELOPT_FP8, m -> halve(m, O + ".weight"))),
                deep(error(
                        "value-not-finite",
                        Kind.PLAIN,
                        m -> m.tensor("model.norm.weight").bytes().putShort(4, (short) 0x7F80))));
    }

    private static List<Fault> faultsBesideTheOriginal() {
        return List.of(
                error("original-tensors", Kind.FP8_BLOCK, m -> m.remove("model.norm.weight")),
                error("original-tensors", Kind.FP8_BLOCK, m -> m.zeros("model.norm.weight", 3)),
                deep(error("weight-direction", Kind.FP8_BLOCK, m -> reciprocals(m, ".weight_scale_inv")))
                        .also("scale-direction", "weight-magnitude"),
                deep(error("weight-transposed", Kind.FP8_BLOCK, m -> swap(m, O + ".weight_scale_inv"))),
                deep(error(
                        "weight-differs",
                        Kind.CT_CHANNEL,
                        m -> m.tensors.put(O + ".weight", m.tensor("model.layers.1.self_attn.o_proj.weight")))),
                deep(error("weight-differs", Kind.CT_MXFP8, m -> reverse(m, O + ".weight_scale"))),
                deep(error(
                        "weight-differs",
                        Kind.CT_INT8,
                        m -> m.tensor(O + ".weight").bytes().put(700, (byte)
                                (m.tensor(O + ".weight").bytes().get(700) ^ 0x40)))),
                deep(error(
                        "value-differs",
                        Kind.FP8_BLOCK,
                        m -> m.tensor("model.norm.weight").bytes().put(8, (byte) 1))),
                deep(advice("weight-rounding", Kind.FP8_BLOCK, RuleTest::truncateCodes)));
    }

    private static Fault deep(Fault fault) {
        return fault.with(o -> fault.options.apply(o).withDeep(true).withThreads(2));
    }

    private static void pad(GoodCheckpoint model, String name, long rows, long columns) {
        GoodCheckpoint.Stored tensor = model.tensor(name);
        ByteBuffer padded = GoodCheckpoint.buffer((int) (rows * columns));
        padded.put(0, tensor.bytes(), 0, tensor.bytes().capacity());
        model.put(name, tensor.dtype(), padded, rows, columns);
    }

    private static GoodCheckpoint.Stored retyped(GoodCheckpoint model, String name, DType dtype) {
        GoodCheckpoint.Stored tensor = model.tensor(name);
        return new GoodCheckpoint.Stored(dtype, tensor.shape(), tensor.bytes());
    }

    private static void retype(GoodCheckpoint model, String name, DType dtype) {
        model.tensors.put(name, retyped(model, name, dtype));
    }

    /** Makes a layer that is not quantised into one of E4M3 with a grid of one row of scales. */
    private static void code(GoodCheckpoint model, String module) {
        GoodCheckpoint.Stored weight = model.tensor(module + ".weight");
        int count = weight.bytes().capacity() / 2;
        ByteBuffer codes = GoodCheckpoint.buffer(count);
        for (int i = 0; i < count; i++) {
            codes.put(i, (byte) (i % 0x7F));
        }
        model.tensors.put(module + ".weight", new GoodCheckpoint.Stored(DType.F8_E4M3FN, weight.shape(), codes));
        model.put(module + ".weight_scale_inv", DType.F32, GoodCheckpoint.floats(0.001f, 0.001f), 1, 2);
    }

    /** A weight of 192 rows under two rows of scales, which a reader could take for blocks of 96 rows. */
    private static void oneColumn(GoodCheckpoint model) {
        String module = "model.layers.0.self_attn.o_proj";
        model.put(module + ".weight", DType.F8_E4M3FN, GoodCheckpoint.buffer(256 * 128), 256, 128);
        model.put(module + ".weight_scale", DType.F32, GoodCheckpoint.floats(1e-3f, 1e-3f), 2, 1);
    }

    private static void overhang(GoodCheckpoint model) {
        for (String module : List.of("model.layers.0.mlp.up_proj", "model.layers.0.mlp.gate_proj")) {
            model.put(module + ".weight", DType.F8_E4M3FN, GoodCheckpoint.buffer(192 * 256), 192, 256);
            model.put(module + ".weight_scale_inv", DType.F32, GoodCheckpoint.floats(1e-3f, 1e-3f, 1e-3f, 1e-3f), 2, 2);
        }
    }

    private static void reciprocals(GoodCheckpoint model, String ending) {
        model.tensors.forEach((name, tensor) -> {
            if (name.endsWith(ending)) {
                for (int at = 0; at < tensor.bytes().capacity(); at += 4) {
                    tensor.bytes().putFloat(at, 1 / tensor.bytes().getFloat(at));
                }
            }
        });
    }

    private static void fill(GoodCheckpoint model, String name, float value) {
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int at = 0; at < bytes.capacity(); at += 4) {
            bytes.putFloat(at, value);
        }
    }

    private static void codes(GoodCheckpoint model, String module, int count, int code) {
        ByteBuffer bytes = model.tensor(module + ".weight").bytes();
        for (int i = 0; i < count; i++) {
            bytes.put(i, (byte) code);
        }
    }

    /** Divides every value by four: two steps of the exponent. */
    private static void halve(GoodCheckpoint model, String name) {
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int i = 0; i < bytes.capacity(); i++) {
            int magnitude = bytes.get(i) & 0x7F;
            bytes.put(i, (byte) ((bytes.get(i) & 0x80) | Math.max(0, magnitude - 16)));
        }
    }

    /** Transposes a grid of two by two. */
    private static void swap(GoodCheckpoint model, String name) {
        ByteBuffer bytes = model.tensor(name).bytes();
        float upper = bytes.getFloat(4);
        bytes.putFloat(4, bytes.getFloat(8));
        bytes.putFloat(8, upper);
    }

    private static void reverse(GoodCheckpoint model, String name) {
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int i = 0, j = bytes.capacity() - 1; i < j; i++, j--) {
            byte first = bytes.get(i);
            bytes.put(i, bytes.get(j));
            bytes.put(j, first);
        }
    }

    /** As if codes had been cut instead of rounded: every tenth is one lower than the nearest. */
    private static void truncateCodes(GoodCheckpoint model) {
        ByteBuffer bytes = model.tensor(O + ".weight").bytes();
        for (int i = 0; i < bytes.capacity(); i += 10) {
            if ((bytes.get(i) & 0x7F) > 0x10) {
                bytes.put(i, (byte) (bytes.get(i) - 1));
            }
        }
    }

    private static void plain(GoodCheckpoint model, String module, long... shape) {
        model.remove(module + ".weight_scale").zeros(module + ".weight", shape);
    }

    private static void truncate(Path file, int bytes) throws IOException {
        byte[] all = Files.readAllBytes(file);
        Files.write(file, Arrays.copyOf(all, all.length - bytes));
    }

    /** Gives the second tensor of the first file the name of the first, which has as many characters. */
    private static void doubleFirstName(Path folder) throws IOException {
        Path file = folder.resolve(FIRST_FILE);
        String all = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
        String changed =
                all.replace("\"model.layers.0.self_attn.v_proj.weight\"", "\"model.layers.0.self_attn.k_proj.weight\"");
        Files.write(file, changed.getBytes(StandardCharsets.ISO_8859_1));
    }

    private static void rewriteIndex(Path folder, Edit change) throws IOException {
        Path file = folder.resolve(INDEX);
        ObjectNode index = (ObjectNode) JSON.readTree(file.toFile());
        change.accept(index);
        JSON.writeValue(file.toFile(), index);
    }

    private static void index(Path folder, Edit change) throws IOException {
        rewriteIndex(folder, i -> change.accept((ObjectNode) i.path("weight_map")));
    }

    private static void copyHead(Path folder) throws IOException {
        GoodCheckpoint good = GoodCheckpoint.of(Kind.FP8_BLOCK);
        Map<String, GoodCheckpoint.Stored> first = new LinkedHashMap<>();
        good.tensors.forEach((name, tensor) -> {
            if (name.startsWith("model.layers.0.") || name.startsWith("lm_head")) {
                first.put(name, tensor);
            }
        });
        good.writeFile(folder.resolve(FIRST_FILE), first);
    }

    /** Down projections of both experts in one tensor. */
    private static void fuseExperts(GoodCheckpoint model) {
        String experts = "model.layers.1.block_sparse_moe.experts.";
        for (String part : List.of("", "_scale_inv")) {
            GoodCheckpoint.Stored first = model.tensor(experts + "0.w2.weight" + part);
            GoodCheckpoint.Stored second = model.tensor(experts + "1.w2.weight" + part);
            model.remove(experts + "0.w2.weight" + part).remove(experts + "1.w2.weight" + part);
            ByteBuffer both = GoodCheckpoint.buffer(2 * first.bytes().capacity());
            both.put(0, first.bytes(), 0, first.bytes().capacity());
            both.put(first.bytes().capacity(), second.bytes(), 0, second.bytes().capacity());
            List<Long> shape = first.shape();
            model.put(experts + "down_proj" + part, first.dtype(), both, 2, shape.get(0), shape.get(1));
        }
    }

    /** Every second scale of packed integers, for groups of 256 inputs. */
    private static void largerGroups(GoodCheckpoint model) {
        ((ObjectNode) model.group().path("weights")).put("group_size", 256);
        for (String name : List.copyOf(model.tensors.keySet())) {
            if (name.endsWith(".weight_scale")) {
                GoodCheckpoint.Stored scales = model.tensor(name);
                ByteBuffer fewer = GoodCheckpoint.buffer(scales.bytes().capacity() / 2);
                for (int i = 0; i < fewer.capacity(); i += Float.BYTES) {
                    fewer.putFloat(i, scales.bytes().getFloat(2 * i));
                }
                model.put(
                        name,
                        scales.dtype(),
                        fewer,
                        scales.shape().get(0),
                        scales.shape().get(1) / 2);
            }
        }
    }

    private static void twoModels(Path folder) throws IOException {
        Files.delete(folder.resolve(INDEX));
        Files.move(folder.resolve(FIRST_FILE), folder.resolve("model.safetensors"));
    }

    private Verification verify(Fault fault) throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(fault.kind);
        fault.plant.accept(model);
        model.write(folder);
        fault.damage.to(folder);
        VerifyOptions options = VerifyOptions.defaults().withConsumers(fault.kind.consumers());
        if (faultsBesideTheOriginal().stream().anyMatch(f -> f.rule.equals(fault.rule))) {
            GoodCheckpoint.of(Kind.PLAIN).write(originalFolder);
            options = options.withOriginal(originalFolder);
        }
        return Verifier.verify(folder, fault.options.apply(options));
    }

    @ParameterizedTest
    @MethodSource("faults")
    void a_planted_fault_is_found_and_told_as_what_it_is(Fault fault) throws IOException {
        assertFound(fault.rule, fault.severity, fault.also, verify(fault));
    }

    /** Checks that a fault was found, and no other next to it but perhaps those of {@code also}. */
    static void assertFound(String rule, Severity severity, Set<String> also, Verification result) {
        assertTrue(
                result.findings().stream().anyMatch(f -> f.rule().equals(rule) && f.severity() == severity),
                result.findings().toString());
        Set<String> others =
                result.findings().stream().map(Finding::rule).collect(Collectors.toCollection(TreeSet::new));
        others.remove(rule);
        others.removeAll(also);
        assertEquals(Set.of(), others, result.findings().toString());
    }

    @Test
    void every_rule_has_a_planted_fault() {
        Set<String> planted = faults().stream().map(Fault::rule).collect(Collectors.toCollection(TreeSet::new));
        Set<String> rules = Verifier.RULES.stream()
                .filter(r -> !(r instanceof GraphRule) && !(r instanceof AdapterRule))
                .map(Rule::id)
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(rules, planted);
    }

    @Test
    void the_words_of_every_rule_are_complete() {
        Set<String> ids = new TreeSet<>();
        for (Rule rule : Verifier.RULES) {
            assertTrue(ids.add(rule.id()), rule.id());
            assertTrue(rule.id().matches("[a-z0-9]+(-[a-z0-9]+)*"), rule.id());
            assertFalse(
                    rule.demand().isBlank()
                            || rule.fix().isBlank()
                            || rule.source().isBlank(),
                    rule.id());
        }
    }
}
