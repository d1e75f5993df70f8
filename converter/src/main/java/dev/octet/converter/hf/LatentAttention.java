package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Attention whose keys and values are made of one short vector for all heads (DeepSeek-V2, arXiv:2405.04434, section 2.1): a cache would keep that
 * vector and the rotated part of the keys, which all heads share. Heads of q and k have a part without positions and one with; those of v have a size
 * of their own. Source: transformers/models/deepseek_v3.
 *
 * @param hidden elements of a token
 * @param heads of q, and as many of k and v
 * @param queryRank elements that queries are made of; empty where they are made of the token
 * @param keyRank elements that keys and values are made of
 * @param plain elements of a head of q and k without positions
 * @param rotated elements of them with positions
 * @param value elements of a head of v
 * @param bias whether the Linears to the short vectors and behind attention have biases
 * @param interleaved whether pairs that are rotated are neighbours
 * @param scale of the scores
 */
record LatentAttention(
        int hidden,
        int heads,
        Optional<Integer> queryRank,
        int keyRank,
        int plain,
        int rotated,
        int value,
        boolean bias,
        boolean interleaved,
        float scale) {
    /** Of the norms of the short vectors; not configured. */
    private static final double EPSILON = 1e-6;

    /**
     * Reads its sizes.
     *
     * @param scores what the family does with its scores
     * @throws dev.octet.formats.error.OctetException when a key is missing or absurd
     */
    static LatentAttention of(HfConfig config, ScoreScaling scores, boolean bias) {
        int heads = config.size("num_attention_heads");
        int keyHeads = config.sizeOr(heads, "num_key_value_heads");
        if (keyHeads != heads) {
            throw config.unsupported("num_key_value_heads", String.valueOf(keyHeads), "num_attention_heads " + heads);
        }
        int plain = config.size("qk_nope_head_dim");
        int rotated = config.size("qk_rope_head_dim");
        return new LatentAttention(
                config.size("hidden_size"),
                heads,
                config.optionalSize("q_lora_rank"),
                config.size("kv_lora_rank"),
                plain,
                rotated,
                config.size("v_head_dim"),
                bias,
                config.flag(true, "rope_interleave"),
                scores.scale(config, plain + rotated));
    }

    /** The attention of the module at {@code module} over x [batch, sequence, hidden]. */
    String emit(GraphDraft draft, String module, String x, RotaryAngles.Tables tables, @Nullable String mask) {
        String path = GraphDraft.path(module);
        String q = queries(draft, module, x);
        List<String> parts = split(draft, path + "/q", q, plain, rotated);
        String turned = tables.turn(
                draft, path + "/q_rotary", joined(draft, path + "/q", parts.getLast(), rotated), heads, interleaved);
        q = concat(draft, path + "/q", parts.getFirst(), turned);

        String down = draft.linear(module + ".kv_a_proj_with_mqa", x, hidden, keyRank + rotated, bias);
        List<String> low = draft.ops(
                path + "/Split",
                "Split",
                List.of(down, draft.longs("split_" + keyRank + "_" + rotated, Shape.of(2), keyRank, rotated)),
                2,
                Attribute.of("axis", -1));
        String shared = tables.turn(draft, path + "/k_rotary", low.getLast(), 1, interleaved);
        // each head has the same: heads lie side by side
        String spread = draft.op(
                path + "/Tile", "Tile", List.of(shared, draft.longs("each_of_" + heads, Shape.of(3), 1, 1, heads)));
        String latent = draft.rmsNorm(module + ".kv_a_layernorm", low.getFirst(), keyRank, EPSILON);
        String both = draft.linear(module + ".kv_b_proj", latent, keyRank, heads * (plain + value), false);
        List<String> kv = split(draft, path + "/kv", both, plain, value);
        String k = concat(draft, path + "/k", kv.getFirst(), spread);
        String v = joined(draft, path + "/v", kv.getLast(), value);
        String y = new AttentionHeads(heads, heads, plain + rotated, value, scale, true, 0)
                .attend(draft, module, q, k, v, mask);
        return draft.linear(module + ".o_proj", y, heads * value, hidden, bias);
    }

    private String queries(GraphDraft draft, String module, String x) {
        int width = heads * (plain + rotated);
        if (queryRank.isEmpty()) {
            return draft.linear(module + ".q_proj", x, hidden, width, false);
        }
        int rank = queryRank.get();
        String low = draft.linear(module + ".q_a_proj", x, hidden, rank, bias);
        String normed = draft.rmsNorm(module + ".q_a_layernorm", low, rank, EPSILON);
        return draft.linear(module + ".q_b_proj", normed, rank, width, false);
    }

    /** Two parts of each head, [batch, sequence, heads, size]. */
    private List<String> split(GraphDraft draft, String path, String x, int first, int second) {
        String byHead = byHead(draft, path, x, first + second);
        String sizes = draft.longs("split_" + first + "_" + second, Shape.of(2), first, second);
        return draft.ops(path + "/Split", "Split", List.of(byHead, sizes), 2, Attribute.of("axis", -1));
    }

    private String byHead(GraphDraft draft, String path, String x, int size) {
        String shape = draft.longs("heads_" + heads + "_of_" + size, Shape.of(4), 0, 0, heads, size);
        return draft.op(path + "/Reshape", "Reshape", List.of(x, shape));
    }

    private String joined(GraphDraft draft, String path, String x, int size) {
        long width = (long) heads * size;
        return draft.op(
                path + "/Reshape_joined",
                "Reshape",
                List.of(x, draft.longs("joined_" + width, Shape.of(3), 0, 0, width)));
    }

    /** Each head's part without positions [batch, sequence, heads, plain], then that with them [batch, sequence, heads·rotated]. */
    private String concat(GraphDraft draft, String path, String without, String with) {
        String both = draft.op(
                path + "/Concat",
                "Concat",
                List.of(without, byHead(draft, path, with, rotated)),
                Attribute.of("axis", -1));
        return joined(draft, path, both, plain + rotated);
    }
}
