package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.CodedWeight;
import dev.octet.trainer.autodiff.MergedNodes;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * Adds an adapter to a graph, node by node. Nodes are inserted next to the Linears they belong to, so that each value lives as shortly as possible.
 *
 * <p>Not thread-safe; {@link #build} ends it.
 */
final class AdapterEdit {
    private static final Attribute TRANSPOSED = Attribute.of("transB", 1L);
    private static final Attribute OF_ADAPTER = Attribute.of(LinearModule.ADAPTER, 1L);
    private static final Attribute WIDE = Attribute.of(Node.IN_F32, 1L);

    private final GraphModel base;
    private final BaseModules modules;
    private final GraphEdit edit;
    private final InitialValues initial;
    private final Map<String, Node> nodes = new HashMap<>();
    private final Map<String, String> keys = new LinkedHashMap<>();
    private final Set<String> encoder = new LinkedHashSet<>();
    private final Map<String, ValueInfo> computedValues = new LinkedHashMap<>();
    private int virtualTokens;
    private boolean keepsShapes = true;
    private final Map<String, List<String>> subtracted = new LinkedHashMap<>();

    /** @param initial where the adapter's parameters start */
    AdapterEdit(GraphModel base, InitialValues initial) {
        this.base = base;
        this.modules = BaseModules.of(base.graph());
        this.edit = GraphEdit.of(base.graph());
        this.initial = initial;
        edit.nodes().forEach(n -> nodes.put(n.id(), n));
    }

    /** The modules of the base. */
    BaseModules modules() {
        return modules;
    }

    /** The node of a Linear, as it is now. */
    Node node(LinearModule module) {
        return node(module.node());
    }

    /** The node that had this id in the base, as it is now. */
    Node node(String id) {
        Node node = nodes.get(id);
        if (node == null) {
            throw new IllegalArgumentException("no node '" + id + "'");
        }
        return node;
    }

    private void replace(Node old, Node changed, List<Node> ahead, List<Node> behind) {
        List<Node> all = new ArrayList<>(ahead);
        all.add(changed);
        all.addAll(behind);
        edit.replace(old, all.toArray(Node[]::new));
        nodes.replaceAll((_, n) -> n.equals(old) ? changed : n);
    }

    /** Shape of a constant of the base. */
    Shape shape(String constant) {
        return constant(constant)
                .spec()
                .orElseThrow(() -> new IllegalArgumentException("'" + constant + "' has no numbers"))
                .shape();
    }

    /** A constant of the base, dense or coded. */
    Initializer constant(String name) {
        Initializer found = edit.initializer(name);
        if (found == null) {
            throw new IllegalArgumentException("'" + name + "' is not a constant");
        }
        return found;
    }

    /** A constant of the base in codes; empty for one in floats. */
    Optional<CodedWeight> coded(String name) {
        Initializer found = edit.initializer(name);
        return found != null && found.data() instanceof Initializer.Coded(CodedTensor c) && c instanceof CodedWeight w
                ? Optional.of(w)
                : Optional.empty();
    }

    /** Whether the base has a constant of this name. */
    boolean isConstant(String name) {
        Initializer found = name.isEmpty() ? null : edit.initializer(name);
        return found != null && found.spec().isPresent();
    }

    /** A node of the base as it was. */
    Node baseNode(String id) {
        return base.graph().nodes().stream()
                .filter(n -> n.id().equals(id))
                .findFirst()
                .orElseThrow();
    }

    /** Names of the base's parameters. */
    Set<String> parameterNames() {
        return Parameters.of(base.graph()).names();
    }

    /** Whether the parameters are those of an adapter that is continued. */
    boolean isContinued() {
        return initial.isContinued();
    }

    /** The last dimension of a value of the base, where the graph knows it. */
    Optional<Long> widthOf(String value) {
        return edit.type(value) instanceof TensorType t
                        && t.dims() != null
                        && !t.dims().isEmpty()
                ? Optional.ofNullable(t.dims().getLast().size())
                : Optional.empty();
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
        if (keys.containsKey(key)) {
            return key; // of a module that is called twice
        }
        edit.putInitializer(Initializer.of(initial.of(key, shape, law)));
        keys.put(key, key);
        return key;
    }

    /** A trained parameter that PEFT's file does not have: of a network that computes what it has. */
    String encoderParameter(String name, Shape shape, InitialValues.Law law) {
        edit.putInitializer(Initializer.of(initial.of(name, shape, law)));
        encoder.add(name);
        return name;
    }

    /** Whether an adapter that is continued has this key, or parameter. */
    boolean continues(String key) {
        return initial.has(key);
    }

    /**
     * A tensor of PEFT's file that is computed from an encoder.
     *
     * @param value of the graph, F32, that depends on no input
     */
    void computes(String key, String value, Shape shape) {
        computedValues.put(key, new ValueInfo(value, new TensorType(DType.F32, dims(shape))));
    }

    private static List<Dim> dims(Shape shape) {
        List<Dim> dims = new ArrayList<>();
        for (long d : shape.toArray()) {
            dims.add(Dim.of(d));
        }
        return dims;
    }

    /** Rows that the adapter puts in front of a sample's tokens, in outputs too. */
    void virtualTokens(int count) {
        virtualTokens = count;
    }

    /** Drops what is noted of shapes of values within the graph: they are derived anew. */
    void forgetShapes() {
        keepsShapes = false;
    }

    /**
     * A trained copy of a parameter of the base, read in its place.
     *
     * @param key in PEFT's file; also the copy's name
     * @param readers ids of the base's nodes that read the copy
     */
    void trainCopy(String parameter, String key, Collection<String> readers) {
        Initializer base = constant(parameter);
        parameter(key, shape(parameter), (_, _) -> BaseWeight.elements(base));
        for (String reader : readers) {
            Node node = node(reader);
            List<String> inputs = new ArrayList<>(node.inputs());
            inputs.replaceAll(i -> i.equals(parameter) ? key : i);
            replace(node, node.withInputs(inputs), List.of(), List.of());
        }
    }

    /** Whether an exporter turned the weight of a Linear from [out, in] to [in, out]; weights of Conv1D are [in, out] from the start. */
    boolean isTransposed(LinearModule linear) {
        Initializer weight = edit.initializer(linear.weight());
        return !linear.transB()
                && weight != null
                && Initializer.OUT_IN.equals(weight.metadata().get(Initializer.ORIGINAL_LAYOUT));
    }

    /** A trained copy of the weight of a Linear, turned from [in, out] to [out, in] as PEFT's files have it. */
    void trainTransposed(LinearModule linear, String key) {
        BaseWeight weight = new BaseWeight(constant(linear.weight()), true);
        parameter(key, Shape.of(weight.out(), weight.in()), (_, _) -> weight.outIn());
        Node node = node(linear);
        List<String> inputs = new ArrayList<>(node.inputs());
        inputs.set(1, key);
        replace(node, node.withInputs(inputs).with(TRANSPOSED), List.of(), List.of());
    }

    /** Ids of the nodes that read a constant of the base. */
    List<String> readers(String constant) {
        return nodes.entrySet().stream()
                .filter(e -> e.getValue().inputs().contains(constant))
                .map(Map.Entry::getKey)
                .sorted()
                .toList();
    }

    /** A constant that nothing trains. */
    String frozen(String name, Shape shape, float[] elements) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), fresh, shape, elements)));
        return fresh;
    }

    /** A constant number. */
    String number(String name, double value) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), fresh, Shape.SCALAR, (float) value)));
        return fresh;
    }

    /** A constant vector of whole numbers. */
    String longs(String name, long... values) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), fresh, Shape.of(values.length), values)));
        return fresh;
    }

    /** Notes that a module's product counts without the one of two frozen factors. */
    void subtracted(String module, String a, String b) {
        subtracted.put(module, List.of(a, b));
    }

    /** Generator of the numbers that a key's initial values are drawn from. */
    RandomGenerator random(String key) {
        return initial.random(key);
    }

    /**
     * Puts nodes around a node: what read its output reads {@code result} of the new nodes.
     *
     * @param node its output gets another name, which {@link Behind#output} gives
     */
    Behind behind(Node node) {
        return new Behind(node, edit.freshName(node.output() + ".base"));
    }

    /** Nodes added around one. Nothing changes before {@link #result}. */
    final class Behind {
        private final Node node;
        private final List<String> inputs;
        private final String own;
        private final List<Node> ahead = new ArrayList<>();
        private final List<Node> added = new ArrayList<>();
        private List<Node> current = added;
        private @Nullable Attribute more;

        Behind(Node node, String own) {
            this.node = node;
            this.inputs = new ArrayList<>(node.inputs());
            this.own = own;
        }

        /** What the node itself computes. */
        String output() {
            return own;
        }

        /** The node reads further values, and has one more attribute. */
        void extended(List<String> further, Attribute attribute) {
            while (inputs.size() < MergedNodes.A) {
                inputs.add("");
            }
            inputs.addAll(further);
            more = attribute;
        }

        /** What follows is computed before the node. */
        Behind ahead() {
            current = ahead;
            return this;
        }

        /** The node reads another value; the empty name for none. */
        void input(int i, String value) {
            while (inputs.size() <= i) {
                inputs.add("");
            }
            inputs.set(i, value);
            while (inputs.getLast().isEmpty()) {
                inputs.removeLast();
            }
        }

        /** x·wᵀ with an adapter's weight, w as [out, in]. Precision recipes of Linears leave it alone. */
        String linear(String name, String x, String w) {
            return linear(name, List.of(x, w));
        }

        /** x·wᵀ + b. */
        String linear(String name, List<String> xWeightBias) {
            return add(name, "Linear", Node.OCTET_DOMAIN, xWeightBias, TRANSPOSED, OF_ADAPTER);
        }

        /** x·wᵀ in F32 under every precision; x·w unless {@code transB}. */
        String wideLinear(String name, String x, String w, boolean transB) {
            return add(
                    name,
                    "Linear",
                    Node.OCTET_DOMAIN,
                    List.of(x, w),
                    Attribute.of("transB", transB ? 1L : 0L),
                    OF_ADAPTER,
                    WIDE);
        }

        /** The result of a standard operator. */
        String op(String name, String opType, List<String> inputsOf, Attribute... attributes) {
            return add(name, opType, "", inputsOf, attributes);
        }

        /** The result of a standard operator, computed in F32 under every precision. */
        String wideOp(String name, String opType, List<String> inputsOf, Attribute... attributes) {
            Attribute[] all = Arrays.copyOf(attributes, attributes.length + 1);
            all[attributes.length] = WIDE;
            return add(name, opType, "", inputsOf, all);
        }

        /** A value through which no gradient flows. */
        String detached(String name, String value) {
            return add(name, View.DETACH, Node.OCTET_DOMAIN, List.of(value));
        }

        /** A value with elements dropped in training; itself when the probability is 0. */
        String dropout(String name, String value, double p, long seed) {
            return p == 0
                    ? value
                    : add(
                            name,
                            "Dropout",
                            Node.OCTET_DOMAIN,
                            List.of(value),
                            Attribute.of(Dropout.RATIO, (float) p),
                            Attribute.of(Dropout.SEED, InitialValues.mixed(seed, name)));
        }

        /** Rows of another table at the indices that a Gather looks up. */
        String gather(String name, String table, Node like) {
            String fresh = edit.freshName(name);
            current.add(like.withName(fresh)
                    .withInputs(List.of(table, like.input(1)))
                    .withOutputs(List.of(fresh)));
            return fresh;
        }

        /** The node's own product once more, of another input and without its bias. */
        String again(String name, String x) {
            String fresh = edit.freshName(name);
            current.add(
                    node.withName(fresh).withInputs(List.of(x, inputs.get(1))).withOutputs(List.of(fresh)));
            return fresh;
        }

        private String add(String name, String opType, String domain, List<String> inputsOf, Attribute... attributes) {
            String fresh = edit.freshName(name);
            current.add(Node.of(fresh, opType, domain, inputsOf, List.of(fresh), attributes));
            return fresh;
        }

        /** Ends the addition with a standard operator whose result takes the place of the node's. */
        void result(String name, String opType, List<String> inputsOf, Attribute... attributes) {
            added.add(Node.of(edit.freshName(name), opType, "", inputsOf, List.of(node.output()), attributes));
            Node changed = node.withInputs(inputs).withOutputs(List.of(own));
            replace(node, more == null ? changed : changed.with(more), ahead, added);
        }

        /** Ends an addition that is all {@link #ahead} of the node. */
        void result() {
            replace(node, node.withInputs(inputs), ahead, List.of());
        }
    }

    /**
     * The graph.
     *
     * @param config as {@code adapter_config.json} says it
     * @param title for people: method, sizes and targets
     */
    AdaptedGraph build(PeftConfig config, String title) {
        Graph built = edit.build();
        Graph graph = keepsShapes ? built : built.withValueInfos(Map.of());
        Map<String, GraphModel> computed = new LinkedHashMap<>();
        computedValues.forEach((key, value) -> {
            GraphEdit part = GraphEdit.of(graph.withValueInfos(Map.of()));
            part.setOutputs(List.of(value));
            part.removeUnreachable();
            part.setInputs(List.of());
            computed.put(key, base.withGraph(part.build()));
        });
        return new AdaptedGraph(
                base.withGraph(graph), keys, config, subtracted, title, encoder, computed, virtualTokens);
    }
}
