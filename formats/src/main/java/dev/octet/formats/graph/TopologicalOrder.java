package dev.octet.formats.graph;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A topological order of nodes, depth-first over producers in the given order, so that a valid order stays. Iterative, for deep graphs;
 * nodes are compared by identity.
 *
 * @param nodes in order; empty when there is a cycle
 * @param onCycle a node that depends on its own result; null without a cycle
 */
record TopologicalOrder(List<Node> nodes, @Nullable Node onCycle) {
    static TopologicalOrder of(List<Node> nodes) {
        Map<String, Node> producers = new HashMap<>();
        for (Node n : nodes) {
            n.outputs().forEach(o -> producers.putIfAbsent(o, n));
        }
        producers.remove("");
        // absent: new; false: its producers are being placed; true: placed
        IdentityHashMap<Node, Boolean> state = new IdentityHashMap<>();
        List<Node> result = new ArrayList<>(nodes.size());
        List<Node> stack = new ArrayList<>();
        for (Node root : nodes) {
            stack.add(root);
            while (!stack.isEmpty()) {
                Node n = stack.getLast();
                Boolean placed = state.get(n);
                if (placed != null) {
                    stack.removeLast();
                    if (!placed) {
                        state.put(n, true);
                        result.add(n);
                    }
                    continue;
                }
                state.put(n, false);
                List<Node> before = unplaced(n, producers, state);
                for (Node p : before) {
                    if (state.containsKey(p)) { // an ancestor that waits for this node
                        return new TopologicalOrder(List.of(), p);
                    }
                }
                stack.addAll(before.reversed());
            }
        }
        return new TopologicalOrder(result, null);
    }

    private static List<Node> unplaced(Node n, Map<String, Node> producers, IdentityHashMap<Node, Boolean> state) {
        List<Node> list = new ArrayList<>();
        for (String u : n.uses()) {
            Node p = producers.get(u);
            if (p != null && !Boolean.TRUE.equals(state.get(p))) {
                list.add(p);
            }
        }
        return list;
    }
}
