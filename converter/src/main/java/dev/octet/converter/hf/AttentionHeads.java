package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How heads of attention are laid out, and the operator for it: ONNX Attention of opset 23 over [batch, sequence, heads·size].
 *
 * @param heads of q
 * @param keyHeads of k and v; each is shared by {@code heads / keyHeads} neighbours
 * @param size elements of a head of q and k
 * @param valueSize elements of a head of v
 * @param scale of the scores
 * @param causal whether a token sees only those before it
 * @param softcap bound of the scaled scores x, which become {@code softcap·tanh(x / softcap)}; 0 for none
 */
record AttentionHeads(int heads, int keyHeads, int size, int valueSize, float scale, boolean causal, float softcap) {
    /** What its node's name ends in. */
    static final String NODE = "/Attention";

    /** Heads that see all tokens, each with a k and v of its own. */
    static AttentionHeads bidirectional(int heads, int size) {
        return new AttentionHeads(heads, heads, size, size, scale(size), false, 0);
    }

    /** Heads that see the tokens before them, each with a k and v of its own. */
    static AttentionHeads causal(int heads, int size, float scale) {
        return new AttentionHeads(heads, heads, size, size, scale, true, 0);
    }

    /** {@code 1 / sqrt(size)}, computed as Python does: in F64. */
    static float scale(int size) {
        return (float) (1 / Math.sqrt(size));
    }

    /**
     * The attention of the module at {@code module}; inputs 1 and 2 are what a cache of keys and values would hold.
     *
     * @param mask BOOL, true where to look; null for everywhere
     */
    String attend(GraphDraft draft, String module, String q, String k, String v, @Nullable String mask) {
        Optional<KeyValueCache> cache = causal ? draft.cache() : Optional.empty();
        if (cache.isPresent()) {
            List<String> all =
                    cache.get().extended(GraphDraft.path(module), k, v, keyHeads * size, keyHeads * valueSize);
            String allowed = cache.get().causal(Objects.requireNonNull(mask));
            return attend(draft, module, List.of(q, all.get(0), all.get(1), allowed), false);
        }
        return attend(draft, module, mask == null ? List.of(q, k, v) : List.of(q, k, v, mask), causal);
    }

    private String attend(GraphDraft draft, String module, List<String> in, boolean triangular) {
        List<Attribute> attributes = new ArrayList<>(List.of(
                Attribute.of("q_num_heads", heads),
                Attribute.of("kv_num_heads", keyHeads),
                Attribute.of("scale", scale),
                Attribute.of("is_causal", triangular ? 1 : 0)));
        if (softcap != 0) {
            attributes.add(Attribute.of("softcap", softcap));
        }
        return draft.op(GraphDraft.path(module) + NODE, "Attention", in, attributes.toArray(Attribute[]::new));
    }
}
