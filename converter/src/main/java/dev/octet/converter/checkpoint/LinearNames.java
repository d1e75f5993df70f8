package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.FusedWeights;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The roles of the weights in Hugging Face checkpoints, by name and rank. Knows the names of transformers' architectures (Llama, Mistral,
 * Qwen, DeepSeek, Mixtral, Gemma, Phi, GPT-2, OPT, BERT, ViT, ...); a matrix of an unknown name counts as a Linear, because most matrices
 * are.
 */
public final class LinearNames {
    private static final Set<String> EMBEDDINGS = Set.of(
            "embed_tokens",
            "embed_positions",
            "embeddings",
            "embedding",
            "wte",
            "wpe",
            "shared",
            "tok_embeddings",
            "position_embeddings",
            "token_embedding",
            "patch_embed",
            "relative_attention_bias",
            "embed_in",
            "word_embeddings",
            "embed",
            "char_embeddings",
            "word_embedding",
            "tokens_embed",
            "positions_embed");
    /**
     * Other names of tables, for example {@code rel_embeddings}, {@code pos_emb}, {@code mask_tokens}: matches the last part that is not a
     * number.
     */
    private static final Pattern TABLE = Pattern.compile(
            "(^|_)emb(ed(s|der)?)?(_|$)|embedd|Embedder|_tokens?$|_table$|^(query_feat|queries_features|bias_values)$");

    private static final List<String> TABLE_WORDS =
            List.of("emb", "Embedder", "_token", "_table", "query_feat", "queries_features", "bias_values");

    private static final Set<String> HEADS = Set.of(
            "lm_head",
            "embed_out",
            "classifier",
            "score",
            "qa_outputs",
            "predictions",
            "cls",
            "seq_relationship",
            "pooler",
            "output_projection");
    /** Last parts of the module paths of routers; the gate of an MLP (gate_proj) is not a router. */
    private static final List<String> ROUTERS =
            List.of("gate", "router", "shared_expert_gate", "gate_weight", "e_score_correction_bias", "switch");

    private static final List<String> NORM_PARTS = List.of("norm", "ln_", "_ln", "layernorm", "ln1", "ln2");
    /** State-space and convolution weights: matrices, but not Linears. */
    private static final List<String> OTHERS =
            List.of("conv1d", "conv", "A_log", "lora_A", "lora_B", "rotary_emb", "objective");

    /** Roles by any part of a path; the earliest in {@link TensorRole} wins. */
    private static final Map<String, TensorRole> PARTS = parts();

    /** Last parts of the paths of modules that make keys, alone or together with queries and values. */
    private static final Set<String> KEY_MAKERS =
            Set.of("k_proj", "qkv_proj", "query_key_value", "Wqkv", "c_attn", "kv_b_proj", "kv_a_proj_with_mqa", "key");

    /** Architectures whose Linears are stored as [in, out]. */
    private static final Set<String> CONV1D_TYPES = Set.of("gpt2", "openai-gpt");

    private static final Set<String> CONV1D_MODULES = Set.of("c_attn", "c_proj", "c_fc", "q_attn");

    private LinearNames() {}

    /**
     * The role of a tensor.
     *
     * @param name as in the checkpoint
     * @param shape its own shape, not that of its codes
     */
    public static TensorRole role(String name, Shape shape) {
        String module = module(name);
        String last = last(module);
        boolean weight = name.endsWith(".weight");
        if (isNorm(module)) {
            return TensorRole.NORM;
        }
        if (shape.rank() == 3 && (weight || !name.endsWith("bias")) && module.contains("expert")) {
            return TensorRole.FUSED_EXPERTS;
        }
        if (shape.rank() != 2 || name.endsWith("bias") || name.endsWith("_bias")) {
            return TensorRole.OTHER;
        }
        TensorRole part = roleOfParts(module);
        if (part == TensorRole.EMBEDDING) {
            return TensorRole.EMBEDDING;
        }
        if (ROUTERS.contains(last) || part == TensorRole.ROUTER) {
            return TensorRole.ROUTER;
        }
        if (part == TensorRole.HEAD) {
            return TensorRole.HEAD;
        }
        if (isTable(lastWord(module))) {
            return TensorRole.EMBEDDING;
        }
        if (OTHERS.contains(last) || (!weight && !module.contains("expert"))) {
            return TensorRole.OTHER;
        }
        return TensorRole.LINEAR;
    }

    /**
     * Whether consumers may use a Linear for a tensor: true of every matrix that is a module's weight, except tables with an unambiguous
     * name. The configuration lists such a tensor if it is not quantised: a superfluous name is harmless, a missing name makes every output
     * NaN.
     *
     * @param name as in the checkpoint
     * @param shape its own shape
     */
    static boolean mayBeLinear(String name, Shape shape) {
        return shape.rank() == 2 && name.endsWith(".weight") && !EMBEDDINGS.contains(lastName(name));
    }

    /**
     * The path of the fused module into which inference engines merge this weight and its siblings; the same for all siblings. Empty for a
     * weight that is not fused.
     *
     * @param name of a weight, {@code model.layers.0.self_attn.q_proj.weight}; gives {@code model.layers.0.self_attn.qkv_proj}
     */
    public static Optional<String> fusedGroup(String name) {
        if (!name.endsWith(".weight")) {
            return Optional.empty();
        }
        return FusedWeights.group(module(name));
    }

    /** The last path parts of all weights that are fused with {@code name}, including its own; only its own if it is not fused. */
    public static List<String> siblings(String name) {
        return FusedWeights.siblings(module(name));
    }

    /**
     * The path of the attention layer whose keys a weight makes: the weight's parent module. Empty for any other weight.
     *
     * @param name of a weight, {@code model.layers.0.self_attn.k_proj.weight}; gives {@code model.layers.0.self_attn}
     */
    public static Optional<String> attention(String name) {
        String module = module(name);
        int dot = module.lastIndexOf('.');
        return name.endsWith(".weight") && dot > 0 && KEY_MAKERS.contains(module.substring(dot + 1))
                ? Optional.of(module.substring(0, dot))
                : Optional.empty();
    }

    /** The last part of the path of a weight's module: {@code q_proj}. */
    static String lastName(String name) {
        return last(module(name));
    }

    /**
     * Whether a weight is stored as [in, out].
     *
     * @param modelType {@code model_type} of the configuration
     */
    public static boolean isConv1d(String modelType, String name) {
        return CONV1D_TYPES.contains(modelType) && CONV1D_MODULES.contains(lastName(name));
    }

    private static String module(String name) {
        return name.endsWith(".weight") ? name.substring(0, name.length() - ".weight".length()) : name;
    }

    private static String last(String module) {
        return module.substring(module.lastIndexOf('.') + 1);
    }

    /** The last part of a module's path that is not a number: {@code layers} of {@code layers.0}. */
    private static String lastWord(String module) {
        String path = module;
        while (path.contains(".") && last(path).chars().allMatch(Character::isDigit)) {
            path = path.substring(0, path.lastIndexOf('.'));
        }
        return last(path);
    }

    private static boolean isNorm(String module) {
        String last = last(module).toLowerCase(Locale.ROOT);
        for (String part : NORM_PARTS) {
            if (last.contains(part)) {
                return true;
            }
        }
        return false;
    }

    private static Map<String, TensorRole> parts() {
        Map<String, TensorRole> parts = new HashMap<>();
        HEADS.forEach(p -> parts.put(p, TensorRole.HEAD));
        parts.put("router", TensorRole.ROUTER);
        EMBEDDINGS.forEach(p -> parts.put(p, TensorRole.EMBEDDING));
        return Map.copyOf(parts);
    }

    /** The role by the parts of a path: embedding before router before head; null if no part names a role. */
    private static @Nullable TensorRole roleOfParts(String module) {
        TensorRole found = null;
        for (int from = 0, dot; from <= module.length(); from = dot + 1) {
            dot = module.indexOf('.', from);
            dot = dot < 0 ? module.length() : dot;
            TensorRole role =
                    dot == from || isDigit(module.charAt(from)) ? null : PARTS.get(module.substring(from, dot));
            if (role != null && (found == null || role.compareTo(found) < 0)) {
                found = role;
            }
        }
        return found;
    }

    /** Called for every matrix of a model but rarely true, so the expression is tried only on names that contain one of its words. */
    private static boolean isTable(String word) {
        return TABLE_WORDS.stream().anyMatch(word::contains)
                && TABLE.matcher(word).find();
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }
}
