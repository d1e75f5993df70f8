package dev.octet.converter.runtime;

import dev.octet.converter.rule.AttentionNode;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The taps for statistics of a checkpoint, named by its modules: the input of each Linear by the module of its weight ({@code
 * model.layers.0.mlp.up_proj}), and the cached keys and values by the name of the attention ({@code model.layers.0.self_attn.k}, after the
 * rotary embedding, and {@code .v}), and the queries {@code .q} that meet them.
 */
public final class ModuleTaps {
    private static final String WEIGHT = ".weight";
    private static final String ATTENTION = "Attention";

    private ModuleTaps() {}

    /**
     * The taps of a canonical model, in the order of its nodes. Omits a Linear without a constant weight; attention with sinks, whose operands have rows that
     * are no tokens; and an operand of attention that is called as a Linear is ({@code SelfAttention.k} of T5). A Linear that is called several times, as
     * DeBERTa's of queries is for tokens and for distances, has a tap for each {@linkplain Tap#module() call}.
     *
     * @param canonical of a checkpoint: constants have the names of its tensors, nodes the names of its modules
     */
    public static List<Tap> of(GraphModel canonical) {
        Graph graph = canonical.graph();
        List<Tap> taps = new ArrayList<>();
        Map<String, Integer> calls = new HashMap<>();
        for (Node n : graph.nodes()) {
            if (n.isOctet(CanonicalOps.LINEAR) && graph.initializers().containsKey(n.input(1))) {
                Tap tap = Tap.ofLinear(module(n.input(1)), n.input(0), channels(graph, n));
                int call = calls.merge(tap.name(), 1, Integer::sum);
                taps.add(call == 1 ? tap : tap.ofCall(call));
            } else if (n.is(ATTENTION) && !n.metadata().containsKey(Node.SINKS)) {
                String module = attention(n, graph.initializers().keySet());
                for (AttentionInput input : AttentionInput.values()) {
                    Tap tap = Tap.ofAttention(module + "." + input.label(), new AttentionNode(n), input);
                    if (calls.putIfAbsent(tap.name(), 1) == null) {
                        taps.add(tap);
                    }
                }
            }
        }
        return List.copyOf(taps);
    }

    /**
     * Adds to the statistics of a checkpoint's modules the same statistics under the names of the values that the modules read, which a
     * plan of the graph requires. Statistics that are already named by values are returned unchanged.
     *
     * @param canonical of the checkpoint of the statistics
     */
    public static Statistics withValues(GraphModel canonical, Statistics statistics) {
        Map<String, TensorStatistics> all = new LinkedHashMap<>(statistics.tensors());
        for (Tap tap : of(canonical)) {
            TensorStatistics known = statistics.tensors().get(tap.module());
            if (known != null) {
                all.putIfAbsent(tap.value(), known);
            }
        }
        return new Statistics(statistics.octetVersion(), statistics.modelDigest(), statistics.data(), all);
    }

    /** The names of the modules whose Linears read each value. */
    public static Map<String, List<String>> byValue(GraphModel canonical) {
        Map<String, List<String>> modules = new LinkedHashMap<>();
        of(canonical)
                .forEach(tap -> modules.computeIfAbsent(tap.value(), v -> new ArrayList<>())
                        .add(tap.module()));
        return modules;
    }

    /** Input channels of a Linear with a constant weight. */
    static int channels(Graph graph, Node linear) {
        Initializer weight = graph.initializers().get(linear.input(1));
        if (weight == null) {
            throw new IllegalArgumentException("'" + linear.id() + "' has no constant weight");
        }
        Shape shape = weight.tensor().orElseThrow().shape();
        return Math.toIntExact(shape.dim(linear.intAttribute("transB", 0) == 1 ? 1 : 0));
    }

    private static String module(String weight) {
        return weight.endsWith(WEIGHT) ? weight.substring(0, weight.length() - WEIGHT.length()) : weight;
    }

    /**
     * {@code model.layers.0.self_attn} for the node {@code /model/layers.0/self_attn/Attention}. If the file omits the body's prefix and
     * has tensors of {@code h.0.attn} for {@code transformer.h.0.attn}, the name omits it too.
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
