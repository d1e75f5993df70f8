package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.precision.LinearModule;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The modules of a base as PEFT knows them, by path: Linears, tables of embeddings, norms.
 *
 * @param linears in the order of the graph
 * @param tables in the order of the graph
 * @param kinds of all modules, by path
 */
record BaseModules(List<LinearModule> linears, List<Table> tables, Map<String, ModuleKind> kinds) {
    /**
     * A table of embeddings.
     *
     * @param node id of the Gather that looks rows up
     * @param weight name of the constant [rows, columns]
     * @param name module path
     */
    record Table(String node, String weight, String name) {}

    private static final String WEIGHT = ".weight";
    /** Where language models have it, under the name that transformers gives it. */
    private static final String HEAD = "lm_head";

    BaseModules {
        linears = List.copyOf(linears);
        tables = List.copyOf(tables);
        kinds = Collections.unmodifiableMap(new LinkedHashMap<>(kinds));
    }

    /** The modules of a canonical graph, ties restored. */
    static BaseModules of(Graph graph) {
        Set<String> outputs = graph.outputs().stream().map(o -> o.name()).collect(Collectors.toSet());
        Set<String> heads = graph.nodes().stream()
                .filter(n -> n.outputs().stream().anyMatch(outputs::contains))
                .map(Node::id)
                .collect(Collectors.toSet());
        Map<String, ModuleKind> kinds = new LinkedHashMap<>();
        List<LinearModule> linears = LinearModule.of(graph).stream()
                .map(m -> heads.contains(m.node()) && isTable(m.weight(), graph) ? m.withName(HEAD) : m)
                .toList();
        for (Parameter p : Parameters.of(graph).all()) {
            if (p.name().endsWith(WEIGHT)) {
                String path = module(p.name());
                switch (p.use()) {
                    case EMBEDDING -> kinds.put(path, ModuleKind.EMBEDDING);
                    case NORM -> kinds.put(path, ModuleKind.NORM);
                    case WEIGHT, BIAS, TOKEN -> {}
                }
            }
        }
        graph.initializers().values().stream()
                .filter(i -> i.data() instanceof Initializer.Coded && i.name().endsWith(WEIGHT))
                .filter(i -> isTable(i.name(), graph))
                .forEach(i -> kinds.put(module(i.name()), ModuleKind.EMBEDDING));
        linears.forEach(
                m -> kinds.put(m.name(), heads.contains(m.node()) ? ModuleKind.OUTPUT_HEAD : ModuleKind.LINEAR));
        List<Table> tables = graph.nodes().stream()
                .filter(n -> n.is("Gather")
                        && n.intAttribute("axis", 0) == 0
                        && n.input(0).endsWith(WEIGHT))
                .map(n -> new Table(n.id(), n.input(0), module(n.input(0))))
                .filter(t -> kinds.get(t.name()) == ModuleKind.EMBEDDING)
                .toList();
        return new BaseModules(linears, tables, kinds);
    }

    private static String module(String weight) {
        return weight.substring(0, weight.length() - WEIGHT.length());
    }

    /** Paths of the norms. */
    List<String> norms() {
        return kinds.entrySet().stream()
                .filter(e -> e.getValue() == ModuleKind.NORM)
                .map(Map.Entry::getKey)
                .toList();
    }

    /** Whether rows of a weight are looked up, as those of an output layer that is tied to the embeddings. */
    private static boolean isTable(String weight, Graph graph) {
        return graph.nodes().stream().anyMatch(n -> n.is("Gather") && n.input(0).equals(weight));
    }
}
