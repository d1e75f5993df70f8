package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;

/**
 * Adds an adapter to a graph, node by node. Nodes are inserted next to the Linears they belong to, so that each value lives as shortly as possible.
 *
 * <p>Not thread-safe; {@link #build} ends it.
 */
final class AdapterEdit {
    private final GraphModel base;
    private final BaseModules modules;
    private final GraphEdit edit;
    private final InitialValues initial;
    private final Map<String, String> keys = new LinkedHashMap<>();

    /** @param initial where the adapter's parameters start */
    AdapterEdit(GraphModel base, InitialValues initial) {
        this.base = base;
        this.modules = BaseModules.of(base.graph());
        this.edit = GraphEdit.of(base.graph());
        this.initial = initial;
    }

    /** The modules of the base. */
    BaseModules modules() {
        return modules;
    }

    /** The node of a Linear, as it is now. */
    Node node(LinearModule module) {
        return edit.nodes().stream()
                .filter(n -> n.id().equals(module.node()))
                .findFirst()
                .orElseThrow();
    }

    /** Shape of a constant of the base. */
    Shape shape(String constant) {
        Initializer found = edit.initializer(constant);
        if (found == null) {
            throw new IllegalArgumentException("'" + constant + "' is not a constant");
        }
        return found.tensor().orElseThrow().shape();
    }

    /** The graph that is being changed. */
    GraphEdit graph() {
        return edit;
    }

    /**
     * A trained parameter, F32.
     *
     * @param key in PEFT's file; also its name in the graph
     * @param law where its elements come from, unless an adapter that is continued has them
     */
    String parameter(String key, Shape shape, InitialValues.Law law) {
        edit.putInitializer(Initializer.of(initial.of(key, shape, law)));
        keys.put(key, key);
        return key;
    }

    /** Trains a parameter of the base, in place. */
    void train(String parameter, String key) {
        keys.put(parameter, key);
    }

    /** A constant number. */
    String number(String name, double value) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), fresh, Shape.SCALAR, (float) value)));
        return fresh;
    }

    /** Generator of the numbers that a key's initial values are drawn from. */
    RandomGenerator random(String key) {
        return initial.random(key);
    }

    /**
     * Puts nodes behind a node: what read its output reads {@code result} of the new nodes.
     *
     * @param after the node; its output gets another name, which {@link Behind#output} gives
     */
    Behind behind(Node after) {
        String output = after.output();
        String own = edit.freshName(output + ".base");
        Node renamed = after.withOutputs(List.of(own));
        edit.replace(after, renamed);
        return new Behind(renamed, own, output);
    }

    /** Nodes added behind one. */
    final class Behind {
        private final Node after;
        private final String own;
        private final String output;
        private final List<Node> added = new ArrayList<>();

        Behind(Node after, String own, String output) {
            this.after = after;
            this.own = own;
            this.output = output;
        }

        /** What the node itself computes. */
        String output() {
            return own;
        }

        /** x·wᵀ with an adapter's weight, w as [out, in]. Precision recipes of Linears leave it alone. */
        String linear(String name, String x, String w) {
            return linear(name, List.of(x, w));
        }

        /** x·wᵀ + b. */
        String linear(String name, List<String> xWeightBias) {
            return add(
                    name,
                    "Linear",
                    Node.OCTET_DOMAIN,
                    xWeightBias,
                    Attribute.of("transB", 1L),
                    Attribute.of(LinearModule.ADAPTER, 1L));
        }

        /** The result of a standard operator. */
        String op(String name, String opType, List<String> inputs, Attribute... attributes) {
            return add(name, opType, "", inputs, attributes);
        }

        private String add(String name, String opType, String domain, List<String> inputs, Attribute... attributes) {
            String fresh = edit.freshName(name);
            added.add(Node.of(fresh, opType, domain, inputs, List.of(fresh), attributes));
            return fresh;
        }

        /** Ends the addition with a standard operator whose result takes the place of the node's. */
        void result(String name, String opType, List<String> inputs) {
            added.add(Node.of(edit.freshName(name), opType, "", inputs, List.of(output)));
            List<Node> all = new ArrayList<>(List.of(after));
            all.addAll(added);
            edit.replace(after, all.toArray(Node[]::new));
        }
    }

    /** The graph. */
    AdaptedGraph build() {
        return new AdaptedGraph(base.withGraph(edit.build()), keys);
    }
}
