package dev.octet.converter.restore;

import dev.octet.formats.graph.Node;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The heads of an Attention: from its attributes for inputs [batch, sequence, width], from shapes for [batch, heads, sequence, size]. */
record Heads(int heads, int keyHeads, int size, double scale) {
    /** Null if shapes are unknown. */
    static @Nullable Heads of(FixedGraph graph, Node attention) {
        List<Long> q = graph.shape(attention.input(0));
        List<Long> k = graph.shape(attention.input(1));
        if (q.size() != k.size() || q.size() < 3) {
            return null;
        }
        boolean joined = q.size() == 3;
        long heads = joined ? attention.intAttribute("q_num_heads", 0) : q.get(1);
        long keyHeads = joined ? attention.intAttribute("kv_num_heads", 0) : k.get(1);
        if (heads < 1 || keyHeads < 1) {
            return null;
        }
        long size = joined ? q.getLast() / heads : q.getLast();
        return new Heads((int) heads, (int) keyHeads, (int) size, attention.floatAttribute("scale", (float)
                (1 / Math.sqrt((double) size))));
    }
}
