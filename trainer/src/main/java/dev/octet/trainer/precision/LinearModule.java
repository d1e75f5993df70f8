package dev.octet.trainer.precision;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A Linear with a weight of its own, in FP8 or not.
 *
 * @param node id of its node
 * @param weight name of W
 * @param name the module that it belongs to, as its weight is named: {@code model.layers.0.mlp.up_proj}
 * @param transB whether W lies as [out, in]
 */
public record LinearModule(String node, String weight, String name, boolean transB) {
    /** Attribute of the Linears of an adapter, 1. They belong to no module, and recipes leave them alone. */
    public static final String ADAPTER = "adapter";

    /** Attribute of a Linear whose columns ranks share unevenly: how many each has. All compute it in the same type. */
    public static final String COLUMNS = "columns";

    private static final String SUFFIX = ".weight";

    private static final Pattern EXPERT = Pattern.compile("(\\bexperts?[._])\\d{1,9}(\\.|$)");

    /** The Linears of a canonical graph, in its order; not those of an adapter, nor routers, which stay in F32. */
    public static List<LinearModule> of(Graph graph) {
        return graph.nodes().stream()
                .filter(n -> isLinear(n, graph))
                .map(n -> new LinearModule(
                        n.id(), n.input(1), name(n.id(), n.input(1)), n.intAttribute("transB", 0) != 0))
                .toList();
    }

    /** The same under the name of another module. */
    public LinearModule withName(String module) {
        return new LinearModule(node, weight, module, transB);
    }

    /** Whether a node is a Linear with a weight of its own; not one of an adapter, nor a router. */
    static boolean isLinear(Node node, Graph graph) {
        return node.isOctet("Linear")
                && !isAdapter(node)
                && node.intAttribute(Node.IN_F32, 0) == 0
                && graph.initializers().containsKey(node.input(1));
    }

    /**
     * The Linears of experts that a node computes as one, each as a node of its own whose input only it has; none for any other node.
     *
     * @param node a {@code GroupedLinear}: x, offsets, weights, biases
     */
    public static List<Node> experts(Node node) {
        String ids = node.textAttribute(Node.LINEARS, "");
        if (!node.isOctet("GroupedLinear") || ids.isEmpty()) {
            return List.of();
        }
        String[] each = ids.split("\n", -1);
        List<Node> all = new ArrayList<>();
        for (int e = 0; e < each.length; e++) {
            List<String> inputs = new ArrayList<>(List.of(node.input(0) + "/" + e));
            for (int i = 2 + e; i < node.inputs().size(); i += each.length) {
                inputs.add(node.input(i));
            }
            all.add(Node.of(
                    each[e],
                    "Linear",
                    Node.OCTET_DOMAIN,
                    inputs,
                    List.of(node.output() + "/" + e),
                    Attribute.of("transB", node.intAttribute("transB", 0))));
        }
        return all;
    }

    /** Ids of the Linears of experts, by the node that computes them as one. */
    public static Map<String, List<String>> groups(Graph graph) {
        Map<String, List<String>> groups = new HashMap<>();
        for (Node n : graph.nodes()) {
            List<String> ids = experts(n).stream().map(Node::id).toList();
            if (!ids.isEmpty()) {
                groups.put(n.id(), ids);
            }
        }
        return groups;
    }

    /** What the modules of all experts are called of which this is one: {@code experts.*.w1} of {@code experts.3.w1}. */
    public static String ofAllExperts(String module) {
        return EXPERT.matcher(module).replaceAll("$1*$2");
    }

    /** Whether a node is a Linear of an adapter. */
    static boolean isAdapter(Node node) {
        return node.intAttribute(ADAPTER, 0) != 0;
    }

    /** Where the weight has a name that says nothing of modules, as exporters give them, the node's with dots. */
    static String name(String node, String weight) {
        return weight.endsWith(SUFFIX)
                ? weight.substring(0, weight.length() - SUFFIX.length())
                : node.replaceFirst("^/", "").replace('/', '.');
    }
}
