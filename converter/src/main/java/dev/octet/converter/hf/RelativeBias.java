package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * T5's bias of the scores by how far a key is from a query: distances fall into buckets, exact ones for short distances and logarithmic ones for
 * longer, and each head has a number for each bucket. Source: transformers/models/t5/modeling_t5.py.
 *
 * @param buckets number of buckets
 * @param farthest distance from which on all fall into the last bucket
 * @param bothWays whether keys in front of the query have buckets of their own
 */
record RelativeBias(int buckets, int farthest, boolean bothWays) {
    /**
     * The bias, F32 [1, heads, tokens, tokens].
     *
     * @param module of the table [buckets, heads]
     */
    String emit(GraphDraft draft, String module, Tokens tokens, int heads) {
        String path = GraphDraft.path(module);
        String bucket =
                new RelativeBuckets(bothWays ? "buckets_both_ways" : "buckets", table()).emit(draft, path, tokens);
        String values = draft.embedding(module, bucket, buckets, heads);
        String turned =
                draft.op(path + "/Transpose", "Transpose", List.of(values), Attribute.of("perm", List.of(2L, 0L, 1L)));
        return draft.op(path + "/Unsqueeze_bias", "Unsqueeze", List.of(turned, draft.longs("axes_0", Shape.of(1), 0)));
    }

    /** Buckets of the distances from {@code -farthest} to {@code farthest}: positions of keys minus those of queries. */
    private long[] table() {
        long[] table = new long[2 * farthest + 1];
        for (int i = 0; i < table.length; i++) {
            table[i] = bucket(i - farthest);
        }
        return table;
    }

    /** In F32 where torch computes in F32. */
    private long bucket(int keyMinusQuery) {
        int count = bothWays ? buckets / 2 : buckets;
        int first = bothWays && keyMinusQuery > 0 ? count : 0;
        int distance = bothWays ? Math.abs(keyMinusQuery) : -Math.min(keyMinusQuery, 0);
        int exact = count / 2;
        if (distance < exact) {
            return (long) first + distance;
        }
        float share = (float) Math.log((float) distance / exact) / (float) Math.log((double) farthest / exact);
        return first + Math.min(exact + (long) (share * (count - exact)), count - 1);
    }
}
