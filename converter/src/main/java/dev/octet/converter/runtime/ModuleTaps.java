package dev.octet.converter.runtime;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the statistics of a checkpoint hold, named by its modules: the input of each Linear by the name of its weight ({@code
 * model.layers.0.mlp.up_proj}), and what goes into the cache of keys and values by the name of the attention ({@code
 * model.layers.0.self_attn.k}, after the rotation of positions, and {@code .v}).
 */
public final class ModuleTaps {
    private static final String WEIGHT = ".weight";
    private static final String ATTENTION = "Attention";

    private ModuleTaps() {}

    /**
     * The taps of a canonical model, in the order of its nodes. A Linear over no constant is left out, and one that is called twice: a name
     * could not say which call.
     *
     * @param canonical of a checkpoint: constants are called like its tensors, nodes like its modules
     */
    public static List<Tap> of(GraphModel canonical) {
        Graph graph = canonical.graph();
        List<Tap> taps = new ArrayList<>();
        Set<String> once = new HashSet<>();
        Set<String> twice = new HashSet<>();
        for (Node n : graph.nodes()) {
            List<Tap> found = new ArrayList<>();
            if (n.isOctet(CanonicalOps.LINEAR) && graph.initializers().containsKey(n.input(1))) {
                found.add(new Tap(module(n.input(1)), n.input(0), Tap.Rows.OF_TOKENS));
            } else if (n.is(ATTENTION)) {
                String module = attention(n, graph.initializers().keySet());
                found.add(new Tap(module + ".k", n.input(1), Tap.Rows.OF_HEADS));
                found.add(new Tap(module + ".v", n.input(2), Tap.Rows.OF_HEADS));
            }
            for (Tap tap : found) {
                if (!once.add(tap.name())) {
                    twice.add(tap.name());
                }
                taps.add(tap);
            }
        }
        return taps.stream().filter(t -> !twice.contains(t.name())).toList();
    }

    /**
     * Statistics of a checkpoint's modules with those of the values that the modules read under the values' names, too: what a plan of
     * the graph asks for. Others, which are named by values, come back as they are.
     *
     * @param canonical of the checkpoint that they were taken of
     */
    public static Statistics withValues(GraphModel canonical, Statistics statistics) {
        Map<String, TensorStatistics> all = new LinkedHashMap<>(statistics.tensors());
        for (Tap tap : of(canonical)) {
            TensorStatistics known = statistics.tensors().get(tap.name());
            if (known != null) {
                all.putIfAbsent(tap.value(), known);
            }
        }
        return new Statistics(statistics.octetVersion(), statistics.modelDigest(), statistics.data(), all);
    }

    private static String module(String weight) {
        return weight.endsWith(WEIGHT) ? weight.substring(0, weight.length() - WEIGHT.length()) : weight;
    }

    /**
     * {@code model.layers.0.self_attn} for the node {@code /model/layers.0/self_attn/Attention}. Files without the body's prefix have tensors
     * of {@code h.0.attn} for {@code transformer.h.0.attn}; then that is the name.
     */
    private static String attention(Node n, Set<String> constants) {
        String path = n.name().startsWith("/") ? n.name().substring(1) : n.name();
        int last = path.lastIndexOf('/');
        String module = (last < 0 ? path : path.substring(0, last)).replace('/', '.');
        for (String name = module; ; name = name.substring(name.indexOf('.') + 1)) {
            String prefix = name + ".";
            if (constants.stream().anyMatch(c -> c.startsWith(prefix))) {
                return name;
            }
            if (name.indexOf('.') < 0) {
                return module;
            }
        }
    }
}
