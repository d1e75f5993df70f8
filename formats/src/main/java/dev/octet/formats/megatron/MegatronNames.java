package dev.octet.formats.megatron;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * From tensors of Megatron Core to those of transformers. Source: megatron/core/transformer/{attention,mlp,transformer_layer}.py, the names of both.
 *
 * <p>Rows of {@code linear_qkv} lie by group: the queries of a group, its key, its value. Rows of {@code linear_fc1} are the gate, then what it gates.
 */
final class MegatronNames {
    private static final Pattern LAYER = Pattern.compile("decoder\\.layers\\.(?:(\\d+)\\.)?(.+)");

    /** Where the state of one layer lies in an object for all: {@code /shard_LAYER_LAYERS}, with further places behind both. */
    private static final Pattern SHARD = Pattern.compile("(.+?)/shard_(\\d{1,6})(?:\\.\\d+)*_[\\d.]+");

    private final MegatronSizes sizes;
    private final Path where;
    private final List<Located> found = new ArrayList<>();

    MegatronNames(MegatronSizes sizes, Path where) {
        this.sizes = sizes;
        this.where = where;
    }

    /** What was added so far, in the order of Megatron's keys. */
    List<Located> found() {
        return found;
    }

    /**
     * Adds a tensor.
     *
     * @param key as Megatron has it
     * @throws UnsupportedModelException when it is of no dense decoder
     */
    void add(String key, Located tensor) {
        Matcher layer = LAYER.matcher(key);
        DType dtype = tensor.spec().dtype();
        Pieces pieces = tensor.pieces();
        if (!layer.matches()) {
            addOutside(key, dtype, pieces);
        } else if (layer.group(1) != null) {
            addOfLayer(key, Long.parseLong(shortened(layer.group(1), key)), layer.group(2), dtype, pieces);
        } else {
            if (pieces.rank() < 2) {
                throw broken(key, "has no axis of layers");
            }
            for (long i = 0; i < pieces.dim(0); i++) {
                addOfLayer(key, i, layer.group(2), dtype, pieces.select(0, i));
            }
        }
    }

    /**
     * The modules of transformers whose weights a module of Megatron has; none for one that is of no dense decoder.
     *
     * @param module without {@code _extra_state}; of layers that share an object, with {@code /shard_LAYER_LAYERS}
     */
    static List<String> linears(String module, boolean gpt2) {
        Matcher shard = SHARD.matcher(module);
        boolean isShard = shard.matches();
        Matcher layer = LAYER.matcher(isShard ? shard.group(1) : module);
        if (!layer.matches() || (layer.group(1) == null && !isShard)) {
            return List.of();
        }
        String number = layer.group(1) == null ? shard.group(2) : layer.group(1);
        String prefix = (gpt2 ? "transformer.h." : "model.layers.") + number + ".";
        List<String> parts = switch (layer.group(2)) {
            case "self_attention.linear_qkv" ->
                gpt2 ? List.of("attn.c_attn") : List.of("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj");
            case "self_attention.linear_proj" -> List.of(gpt2 ? "attn.c_proj" : "self_attn.o_proj");
            case "mlp.linear_fc1" -> gpt2 ? List.of("mlp.c_fc") : List.of("mlp.gate_proj", "mlp.up_proj");
            case "mlp.linear_fc2" -> List.of(gpt2 ? "mlp.c_proj" : "mlp.down_proj");
            default -> List.of();
        };
        return parts.stream().map(prefix::concat).toList();
    }

    private String shortened(String digits, String key) {
        if (digits.length() > 6) {
            throw broken(key, "is of a layer of that number");
        }
        return digits;
    }

    private void addOutside(String key, DType dtype, Pieces pieces) {
        switch (key) {
            case "embedding.word_embeddings.weight" ->
                put(sizes.gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight", dtype, tokens(key, pieces));
            case "embedding.position_embeddings.weight" -> {
                if (!sizes.gpt2()) {
                    throw unknown(key);
                }
                put("transformer.wpe.weight", dtype, pieces);
            }
            case "decoder.final_layernorm.weight", "decoder.final_layernorm.bias" -> {
                String part = key.substring(key.lastIndexOf('.'));
                put((sizes.gpt2() ? "transformer.ln_f" : "model.norm") + part, dtype, pieces);
            }
            case "output_layer.weight" -> put("lm_head.weight", dtype, tokens(key, pieces));
            default -> throw unknown(key);
        }
    }

    /** Without the rows that Megatron adds so that ranks have equally many. */
    private Pieces tokens(String key, Pieces rows) {
        long vocabulary = sizes.vocabulary();
        if (vocabulary > rows.dim(0)) {
            throw broken(
                    key, "has " + rows.dim(0) + " rows, and the vocabulary of " + sizes.from() + " has " + vocabulary);
        }
        return vocabulary == 0 ? rows : rows.narrow(0, 0, vocabulary);
    }

    private void addOfLayer(String key, long layer, String part, DType dtype, Pieces pieces) {
        String prefix = (sizes.gpt2() ? "transformer.h." : "model.layers.") + layer + ".";
        String kind = part.substring(part.lastIndexOf('.') + 1);
        boolean gpt2 = sizes.gpt2();
        switch (part) {
            case "self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias" ->
                addAttention(key, prefix, kind, dtype, pieces);
            case "self_attention.linear_proj.weight", "self_attention.linear_proj.bias" ->
                addLinear(prefix + (gpt2 ? "attn.c_proj." : "self_attn.o_proj.") + kind, dtype, pieces);
            case "self_attention.linear_qkv.layer_norm_weight", "self_attention.linear_qkv.layer_norm_bias" ->
                put(
                        prefix + (gpt2 ? "ln_1." : "input_layernorm.") + kind.substring("layer_norm_".length()),
                        dtype,
                        pieces);
            case "input_layernorm.weight", "input_layernorm.bias" ->
                put(prefix + (gpt2 ? "ln_1." : "input_layernorm.") + kind, dtype, pieces);
            case "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.layer_norm_bias" ->
                put(
                        prefix
                                + (gpt2 ? "ln_2." : "post_attention_layernorm.")
                                + kind.substring("layer_norm_".length()),
                        dtype,
                        pieces);
            case "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias" ->
                put(prefix + (gpt2 ? "ln_2." : "post_attention_layernorm.") + kind, dtype, pieces);
            case "self_attention.q_layernorm.weight" -> put(prefix + "self_attn.q_norm.weight", dtype, pieces);
            case "self_attention.k_layernorm.weight" -> put(prefix + "self_attn.k_norm.weight", dtype, pieces);
            case "mlp.linear_fc1.weight", "mlp.linear_fc1.bias" -> {
                if (gpt2) {
                    addLinear(prefix + "mlp.c_fc." + kind, dtype, pieces);
                    return;
                }
                long rows = pieces.dim(0);
                if (rows % 2 != 0) {
                    throw broken(key, "has " + rows + " rows, which are no gates and as many others");
                }
                put(prefix + "mlp.gate_proj." + kind, dtype, pieces.narrow(0, 0, rows / 2));
                put(prefix + "mlp.up_proj." + kind, dtype, pieces.narrow(0, rows / 2, rows / 2));
            }
            case "mlp.linear_fc2.weight", "mlp.linear_fc2.bias" ->
                addLinear(prefix + (gpt2 ? "mlp.c_proj." : "mlp.down_proj.") + kind, dtype, pieces);
            default -> throw unknown(key);
        }
    }

    private void addAttention(String key, String prefix, String kind, DType dtype, Pieces pieces) {
        long groups = sizes.groups();
        long perGroup = sizes.heads() / groups;
        long rows = pieces.dim(0);
        if (rows % (groups * (perGroup + 2)) != 0) {
            throw broken(
                    key,
                    "has " + rows + " rows, which " + sizes.heads() + " heads and " + groups
                            + " of keys and values do not divide");
        }
        long size = rows / (groups * (perGroup + 2));
        Pieces q = rowsOf(pieces, 0, perGroup * size, (perGroup + 2) * size);
        Pieces k = rowsOf(pieces, perGroup * size, size, (perGroup + 2) * size);
        Pieces v = rowsOf(pieces, (perGroup + 1) * size, size, (perGroup + 2) * size);
        if (sizes.gpt2()) {
            addLinear(prefix + "attn.c_attn." + kind, dtype, Pieces.joined(List.of(q, k, v), 0));
        } else {
            put(prefix + "self_attn.q_proj." + kind, dtype, q);
            put(prefix + "self_attn.k_proj." + kind, dtype, k);
            put(prefix + "self_attn.v_proj." + kind, dtype, v);
        }
    }

    /** Rows {@code from} to {@code from + count - 1} of each stretch of {@code every} rows. */
    private static Pieces rowsOf(Pieces pieces, long from, long count, long every) {
        List<Pieces> parts = new ArrayList<>();
        for (long at = from; at < pieces.dim(0); at += every) {
            parts.add(pieces.narrow(0, at, count));
        }
        return Pieces.joined(parts, 0);
    }

    /** GPT-2's matrices are [in, out]. */
    private void addLinear(String name, DType dtype, Pieces pieces) {
        put(name, dtype, sizes.gpt2() && pieces.rank() == 2 ? pieces.transposed() : pieces);
    }

    private void put(String name, DType dtype, Pieces pieces) {
        long[] dims = new long[pieces.rank()];
        for (int k = 0; k < dims.length; k++) {
            dims[k] = pieces.dim(k);
        }
        found.add(new Located(new TensorSpec(name, dtype, Shape.of(dims)), pieces));
    }

    private UnsupportedModelException unknown(String key) {
        return new UnsupportedModelException(
                "tensor '" + key + "' is none of a dense decoder like Llama or GPT-2, whose tensors are regrouped",
                where.toString(),
                "convert the checkpoint with the program that trained it");
    }

    private MalformedModelException broken(String key, String what) {
        return new MalformedModelException(
                "tensor '" + key + "' " + what,
                where.toString(),
                "put the config.json of this model in the folder, or copy the folder again");
    }
}
