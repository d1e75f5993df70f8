package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * DeBERTa's scores of positions: each distance between two tokens has an embedding. What a query says to the embedding of its distance to a key (c2p),
 * and what that embedding says to the key (p2c), is added to what the query says to the key. Source:
 * transformers/models/deberta_v2/modeling_deberta_v2.py.
 */
final class DisentangledScores implements PostNormLayers.Mask {
    private static final String CONTENT_TO_POSITION = "c2p";
    private static final String POSITION_TO_CONTENT = "p2c";
    /** Far below any score, so that nothing is left of it behind a softmax. */
    private static final float HIDDEN = -1e9f;

    private final GraphDraft draft;
    private final Tokens tokens;
    private final AttentionHeads heads;
    private final Settings settings;
    private final String embeddings;
    private @Nullable String distances;
    private @Nullable String byQuery;
    private @Nullable String byKey;

    /**
     * What a configuration says of positions.
     *
     * @param kinds which scores of positions there are
     * @param span embeddings of distances to one side
     * @param farthest distance from which on all are alike
     * @param logarithmic whether the embeddings are of buckets, which get wider with the distance
     * @param sharesLinears whether embeddings are turned into keys and queries by the Linears of tokens
     */
    record Settings(Set<String> kinds, int span, int farthest, boolean logarithmic, boolean sharesLinears) {
        Settings {
            kinds = Set.copyOf(kinds);
        }

        /** @throws dev.octet.formats.error.OctetException when a key is absurd, or asks for what is not computed here */
        static Settings of(HfConfig config) {
            int farthest = positions(config, "max_relative_positions")
                    .orElseGet(() -> config.sizeOr(512, "max_position_embeddings"));
            Optional<Integer> buckets = positions(config, "position_buckets");
            int span = buckets.orElse(farthest);
            if (buckets.isPresent() && (span < 4 || farthest - 1 <= span / 2)) {
                throw config.malformed("position_buckets " + span + " do not fit max_relative_positions " + farthest);
            }
            return new Settings(
                    kinds(config), span, farthest, buckets.isPresent(), config.flag(false, "share_att_key"));
        }

        /** A list, or names between bars. */
        private static Set<String> kinds(HfConfig config) {
            List<String> named = config.json().path("pos_att_type").isTextual()
                    ? parts(config.text("", "pos_att_type"))
                    : config.texts("pos_att_type");
            for (String kind : named) {
                if (!kind.equals(CONTENT_TO_POSITION) && !kind.equals(POSITION_TO_CONTENT)) {
                    throw config.unsupported("pos_att_type", kind, CONTENT_TO_POSITION + ", " + POSITION_TO_CONTENT);
                }
            }
            return Set.copyOf(named);
        }

        /** A number of positions; -1 and 0 stand for none. */
        private static Optional<Integer> positions(HfConfig config, String key) {
            return config.json().path(key).asLong(1) < 1 ? Optional.empty() : config.optionalSize(key);
        }

        /** What scores are multiplied by: they are sums of up to three products, with or without positions. */
        static float scale(HfConfig config, int headSize) {
            return (float) (1 / Math.sqrt((double) headSize * (1 + kinds(config).size())));
        }

        /** Places of the embeddings of distances, from keys far behind the query to those far in front of it; for those of {@link RelativeBuckets}. */
        long[] table() {
            int last = 0;
            while (bucket(last) < span) {
                last++;
            }
            long[] table = new long[2 * last + 1];
            for (int i = 0; i < table.length; i++) {
                int queryMinusKey = last - i;
                table[i] = Math.clamp(
                        Integer.signum(queryMinusKey) * bucket(Math.abs(queryMinusKey)) + span, 0, 2 * span - 1);
            }
            return table;
        }

        /** Of a distance from 0 on; in F32 where torch computes in F32. */
        private long bucket(int distance) {
            int exact = span / 2;
            if (!logarithmic || distance <= exact) {
                return distance;
            }
            float share =
                    (float) Math.log((float) distance / exact) / (float) Math.log((float) ((farthest - 1.0) / exact));
            return exact + (long) Math.ceil(share * (exact - 1));
        }
    }

    /**
     * Adds the embeddings.
     *
     * @param encoder module of the encoder
     */
    DisentangledScores(
            Settings settings,
            HfConfig config,
            GraphDraft draft,
            Tokens tokens,
            String encoder,
            PostNormLayers layers) {
        this.settings = settings;
        this.draft = draft;
        this.tokens = tokens;
        this.heads = layers.heads();
        int hidden = layers.hidden();
        int count = 2 * settings.span();
        long[] all = LongStream.range(0, count).toArray();
        String table = draft.embedding(
                encoder + ".rel_embeddings", draft.longs("all_embeddings", Shape.of(count), all), count, hidden);
        boolean normed = parts(config.text("none", "norm_rel_ebd")).contains("layer_norm");
        embeddings = normed ? draft.layerNorm(encoder + ".LayerNorm", table, hidden, layers.epsilon()) : table;
    }

    private static List<String> parts(String text) {
        return Stream.of(text.toLowerCase(Locale.ROOT).split("\\|", -1))
                .map(String::strip)
                .filter(part -> !part.isEmpty())
                .toList();
    }

    @Override
    public String of(String attention, String q, String k) {
        String path = GraphDraft.path(attention);
        String sum = null;
        if (settings.kinds().contains(CONTENT_TO_POSITION)) {
            sum = scores(path + "/c2p", q, linear(attention, "pos_key_proj", "key_proj"), byQuery());
        }
        if (settings.kinds().contains(POSITION_TO_CONTENT)) {
            String said = scores(path + "/p2c", k, linear(attention, "pos_query_proj", "query_proj"), byKey());
            sum = sum == null ? said : draft.add(path, sum, said);
        }
        if (sum == null) {
            return tokens.padding();
        }
        String scaled = draft.scaled(path + "/positions", sum, "position_scale", heads.scale());
        String hidden = draft.floats("hidden_score", Shape.SCALAR, HIDDEN);
        return draft.op(path + "/Where", "Where", List.of(tokens.padding(), scaled, hidden));
    }

    private String linear(String attention, String own, String shared) {
        int hidden = heads.heads() * heads.size();
        String module = attention + "." + (settings.sharesLinears() ? shared : own);
        return draft.linear(module, embeddings, hidden, hidden, true);
    }

    /**
     * What x says to the embedding of each distance, [batch, heads, queries, keys].
     *
     * @param x [batch, sequence, hidden]
     * @param positions [embeddings, hidden]
     * @param places for each query and key, among the products of x's tokens with all embeddings
     */
    private String scores(String path, String x, String positions, String places) {
        int count = heads.heads();
        int size = heads.size();
        String split = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(x, draft.longs("heads_" + count + "_of_" + size, Shape.of(4), 0, 0, count, size)));
        String each = draft.op(
                path + "/Transpose", "Transpose", List.of(split), Attribute.of("perm", List.of(0L, 2L, 1L, 3L)));
        String parts = draft.op(
                path + "/Reshape_positions",
                "Reshape",
                List.of(
                        positions,
                        draft.longs("heads_" + count + "_of_" + size + "_alone", Shape.of(3), 0, count, size)));
        String columns = draft.op(
                path + "/Transpose_positions", "Transpose", List.of(parts), Attribute.of("perm", List.of(1L, 2L, 0L)));
        String all = draft.op(path + "/MatMul", "MatMul", List.of(each, columns));
        String flat = draft.op(
                path + "/Reshape_all", "Reshape", List.of(all, draft.longs("all_distances", Shape.of(3), 0, 0, -1)));
        return draft.op(path + "/Gather", "Gather", List.of(flat, places), Attribute.of("axis", 2));
    }

    /** Places among the products of queries, I64 [queries, keys]. */
    private String byQuery() {
        if (byQuery == null) {
            byQuery = places("queries", 1);
        }
        return byQuery;
    }

    /** Places among the products of keys, I64 [queries, keys]. */
    private String byKey() {
        if (byKey == null) {
            byKey = places("keys", 0);
        }
        return byKey;
    }

    private String places(String whose, long axis) {
        String path = "/distances";
        if (distances == null) {
            distances = new RelativeBuckets("distances", settings.table()).emit(draft, path, tokens);
        }
        String width = draft.longs("embeddings_of_distances", Shape.of(), 2L * settings.span());
        String firsts = draft.op(path + "/Mul_" + whose, "Mul", List.of(tokens.positions(), width));
        String column = draft.op(
                path + "/Unsqueeze_" + whose,
                "Unsqueeze",
                List.of(firsts, draft.longs("axes_" + axis, Shape.of(1), axis)));
        return draft.add(path + "/" + whose, column, distances);
    }
}
