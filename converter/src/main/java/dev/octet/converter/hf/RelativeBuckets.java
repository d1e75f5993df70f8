package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * Numbers by how far a key is from a query, where all distances beyond the farthest are alike.
 *
 * @param name of the table among the graph's constants
 * @param table numbers of the distances from {@code -farthest} to {@code farthest}: positions of keys minus those of queries
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record RelativeBuckets(String name, long... table) {
    private int farthest() {
        return table.length / 2;
    }

    /** The number of each pair, I64 [queries, keys]. */
    String emit(GraphDraft draft, String path, Tokens tokens) {
        String queries = draft.op(
                path + "/Unsqueeze", "Unsqueeze", List.of(tokens.positions(), draft.longs("axes_1", Shape.of(1), 1)));
        String keys = draft.op(
                path + "/Unsqueeze_keys",
                "Unsqueeze",
                List.of(tokens.positions(), draft.longs("axes_0", Shape.of(1), 0)));
        String distance = draft.op(path + "/Sub", "Sub", List.of(keys, queries));
        String most = draft.longs("farthest", Shape.of(), farthest());
        String least = draft.longs("minus_farthest", Shape.of(), -farthest());
        String near =
                draft.op(path + "/Max", "Max", List.of(draft.op(path + "/Min", "Min", List.of(distance, most)), least));
        String place = draft.add(path, near, most);
        String numbers = draft.longs(name, Shape.of(table.length), table);
        return draft.op(path + "/Gather_bucket", "Gather", List.of(numbers, place), Attribute.of("axis", 0));
    }
}
