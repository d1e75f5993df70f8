package dev.octet.converter.gguf;

import dev.octet.converter.gguf.GgufFamily.Trait;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Names of tensors in transformers and in llama.cpp. Source: llama.cpp, gguf-py/gguf/tensor_mapping.py. */
final class GgufNames {
    /** A tensor that has no counterpart: it is a part of the configuration. */
    static final String ROPE_FACTORS = "rope_freqs.weight";

    private static final String EMBEDDING = "token_embd.weight";

    /** The matrix of the output layer. */
    static final String HEAD = "output.weight";

    private static final String WEIGHT = ".weight";
    private static final String SCALE = ".scale";
    private static final String INPUT_SCALE = ".input_scale";

    private static final Map<String, String> WHOLE = Map.of(
            "model.embed_tokens.weight", EMBEDDING, "model.norm.weight", "output_norm.weight", "lm_head.weight", HEAD);

    private static final Pattern LAYER = Pattern.compile("model\\.layers\\.(\\d{1,4})\\.(.+)\\.(weight|bias)");
    private static final Pattern BLOCK = Pattern.compile("blk\\.(\\d{1,4})\\.(.+)\\.(weight|bias)");

    private final Map<String, String> toBlock = new LinkedHashMap<>();
    private final Map<String, String> toLayer;
    private final Map<String, String> toModel =
            WHOLE.entrySet().stream().collect(Collectors.toMap(Map.Entry::getValue, Map.Entry::getKey));

    private final boolean hasHeadNorms;

    GgufNames(GgufFamily family) {
        hasHeadNorms = family == GgufFamily.QWEN3;
        toBlock.put("input_layernorm", "attn_norm");
        toBlock.put("self_attn.q_proj", "attn_q");
        toBlock.put("self_attn.k_proj", "attn_k");
        toBlock.put("self_attn.v_proj", "attn_v");
        toBlock.put("self_attn.o_proj", "attn_output");
        toBlock.put("self_attn.q_norm", "attn_q_norm");
        toBlock.put("self_attn.k_norm", "attn_k_norm");
        toBlock.put("mlp.gate_proj", "ffn_gate");
        toBlock.put("mlp.up_proj", "ffn_up");
        toBlock.put("mlp.down_proj", "ffn_down");
        if (family.has(Trait.OUTPUT_NORMS)) {
            toBlock.put("post_attention_layernorm", "post_attention_norm");
            toBlock.put("pre_feedforward_layernorm", "ffn_norm");
            toBlock.put("post_feedforward_layernorm", "post_ffw_norm");
        } else {
            toBlock.put("post_attention_layernorm", "ffn_norm");
        }
        toLayer = toBlock.entrySet().stream().collect(Collectors.toMap(Map.Entry::getValue, Map.Entry::getKey));
    }

    /**
     * The tensors that every file of the family has, by their names in the file: all weights but the output layer, which may be the embedding.
     *
     * @param layers their number
     */
    Stream<String> weights(int layers) {
        List<String> parts = toBlock.values().stream()
                .filter(part -> hasHeadNorms || !(part.endsWith("_q_norm") || part.endsWith("_k_norm")))
                .toList();
        Stream<String> ofLayers = IntStream.range(0, layers)
                .boxed()
                .flatMap(layer -> parts.stream().map(part -> "blk." + layer + "." + part + ".weight"));
        return Stream.concat(WHOLE.values().stream().filter(name -> !name.equals(HEAD)), ofLayers);
    }

    /** llama.cpp's name of a parameter of transformers; empty where it has none. */
    Optional<String> inFile(String parameter) {
        return renamed(parameter, WHOLE, LAYER, toBlock, "blk.");
    }

    /** transformers' name of a tensor of llama.cpp; empty where it has none. */
    Optional<String> inModel(String tensor) {
        return renamed(tensor, toModel, BLOCK, toLayer, "model.layers.");
    }

    private static Optional<String> renamed(
            String name, Map<String, String> whole, Pattern pattern, Map<String, String> parts, String prefix) {
        String found = whole.get(name);
        Matcher m = pattern.matcher(name);
        if (found != null || !m.matches()) {
            return Optional.ofNullable(found);
        }
        return Optional.ofNullable(parts.get(m.group(2))).map(p -> prefix + m.group(1) + "." + p + "." + m.group(3));
    }

    /** The scale of a whole tensor that llama.cpp multiplies the product with, beside a matrix; by the name of the matrix. */
    static String scaleOf(String matrix) {
        return stem(matrix) + SCALE;
    }

    /** The static scale of what a matrix is multiplied with, by the name of the matrix. */
    static String inputScaleOf(String matrix) {
        return stem(matrix) + INPUT_SCALE;
    }

    /** The matrix that a tensor is the scale of, or of its inputs, by their names in the file; empty for other tensors. */
    static Optional<String> ofScale(String tensor) {
        String ending = isInputScale(tensor) ? INPUT_SCALE : SCALE;
        return tensor.endsWith(ending)
                ? Optional.of(tensor.substring(0, tensor.length() - ending.length()) + WEIGHT)
                : Optional.empty();
    }

    /** Whether this is the static scale of what a matrix is multiplied with, by its name in the file. */
    static boolean isInputScale(String tensor) {
        return tensor.endsWith(INPUT_SCALE);
    }

    private static String stem(String matrix) {
        return matrix.substring(0, matrix.length() - WEIGHT.length());
    }

    /** The bias beside a matrix, by their names in the file. */
    static String biasOf(String matrix) {
        return stem(matrix) + ".bias";
    }

    /** Whether this is a matrix of an MLP, by its name in the file. */
    static boolean isMlp(String tensor) {
        return tensor.contains(".ffn_") && isMatrix(tensor);
    }

    /** Whether this is the matrix of the embedding or of the output layer, by its name in the file. */
    static boolean isTable(String tensor) {
        return tensor.equals(EMBEDDING) || tensor.equals(HEAD);
    }

    /** Whether this is the matrix of the embedding, by its name in the file. */
    static boolean isEmbedding(String tensor) {
        return tensor.equals(EMBEDDING);
    }

    /** Whether this has two dimensions, by its name in the file: neither norm nor bias. */
    static boolean isMatrix(String tensor) {
        return !isNorm(tensor) && tensor.endsWith(".weight");
    }

    /** Whether this is a norm, by its name in the file. */
    static boolean isNorm(String tensor) {
        return tensor.endsWith("norm.weight");
    }

    /** Whether its rows are those of q, or of k: which are reordered for an interleaved rotation. */
    static boolean isQuery(String tensor) {
        return tensor.contains(".attn_q.");
    }

    /** See {@link #isQuery}. */
    static boolean isKey(String tensor) {
        return tensor.contains(".attn_k.");
    }
}
