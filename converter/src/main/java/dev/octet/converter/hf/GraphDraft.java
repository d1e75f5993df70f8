package dev.octet.converter.hf;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A graph while an architecture writes it, node after node. Nodes are called like the modules they come from
 * ({@code /model/layers.0/self_attn/q_proj}), constants as in the file.
 *
 * <p>The graph computes in F32. Constants of Octet's own operators stay as they are stored, BF16 or F16: the operator widens them.
 * Behind all others stands a Cast.
 */
final class GraphDraft {
    private final CheckpointParameters parameters;
    private final Arena arena;
    private final List<Node> nodes = new ArrayList<>();
    private final Map<String, Initializer> initializers = new LinkedHashMap<>();
    private final List<ValueInfo> inputs = new ArrayList<>();
    private final List<ValueInfo> outputs = new ArrayList<>();
    /** Value by the name of the output it becomes. */
    private final Map<String, String> renamed = new HashMap<>();

    private final Map<String, Integer> used = new HashMap<>();

    private final HfImporter.Use use;
    private final Map<String, String> metadata = new LinkedHashMap<>();
    private @Nullable KeyValueCache cache;

    /** A graph of whole sequences; {@code arena} owns the small constants. */
    GraphDraft(CheckpointParameters parameters, Arena arena) {
        this(parameters, HfImporter.Use.SEQUENCES, arena);
    }

    /** @param arena owns the small constants */
    GraphDraft(CheckpointParameters parameters, HfImporter.Use use, Arena arena) {
        this.parameters = parameters;
        this.use = use;
        this.arena = arena;
    }

    /** Whether attention continues what a cache holds. */
    boolean isCached() {
        return use == HfImporter.Use.GENERATION;
    }

    /** Gives the graph its cache, where it is to have one. */
    void useCache(Tokens tokens) {
        cache = isCached() ? new KeyValueCache(this, tokens) : null;
    }

    /** Takes note that keys of texts beyond this length are rotated otherwise. */
    void limitCache(int length) {
        metadata.put(KeyValueCache.LIMIT_KEY, Integer.toString(length));
    }

    /** What the graph's metadata say of it. */
    Map<String, String> metadata() {
        return metadata;
    }

    /** The cache that attention extends, where there is one. */
    Optional<KeyValueCache> cache() {
        return Optional.ofNullable(cache);
    }

    /** What the output layer reads of x [batch, sequence, size]: all, or the last token where only the next one is asked for. */
    String last(String x) {
        return isCached()
                ? op("/last", "Gather", List.of(x, longs("last_one", Shape.of(1), -1)), Attribute.of("axis", 1))
                : x;
    }

    /** The checkpoint's tensors. */
    CheckpointParameters parameters() {
        return parameters;
    }

    /** An input of the graph; its name. */
    String input(String name, DType dtype, Dim... dims) {
        inputs.add(new ValueInfo(name, new ValueType.TensorType(dtype, List.of(dims))));
        return name;
    }

    /** Notes something on the last node. */
    void mark(Map<String, String> metadata) {
        nodes.add(nodes.removeLast().withMetadata(metadata));
    }

    /** Makes {@code value} an output, F32, under another name. */
    void output(String name, String value, Dim... dims) {
        renamed.put(value, name);
        outputs.add(new ValueInfo(name, new ValueType.TensorType(DType.F32, List.of(dims))));
    }

    /** A parameter as it is stored; its name as a constant of the graph. */
    String stored(String parameter, long... shape) {
        Initializer constant = parameters.get(parameter, shape);
        initializers.putIfAbsent(constant.name(), constant);
        return constant.name();
    }

    /** A parameter as an F32 value, for standard operators. */
    String widened(String parameter, long... shape) {
        return widened(stored(parameter, shape), parameter);
    }

    private String widened(String value, String parameter) {
        Initializer constant = initializers.get(value);
        boolean narrow = constant != null
                && constant.tensor().map(t -> t.dtype() != DType.F32).orElse(false);
        return narrow ? toF32(path(parameter), value) : value;
    }

    private String toF32(String path, String value) {
        return op(path + "/Cast", "Cast", List.of(value), Attribute.of("to", DType.F32.onnxId()));
    }

    /** A tensor of the file that is not trained, as an F32 value. */
    String buffer(String name, long... shape) {
        String value = widened(name, shape);
        initializers.computeIfPresent(stored(name, shape), (_, c) -> untrained(c));
        return value;
    }

    /** A small constant of whole numbers. */
    String longs(String name, Shape shape, long... values) {
        initializers.putIfAbsent(name, Initializer.of(Tensor.ofLongs(arena, name, shape, values)));
        return name;
    }

    /** A small constant of F32 numbers. */
    String floats(String name, Shape shape, float... values) {
        initializers.putIfAbsent(name, untrained(Initializer.of(Tensor.ofFloats(arena, name, shape, values))));
        return name;
    }

    private static Initializer untrained(Initializer c) {
        return new Initializer(c.name(), c.data(), c.doc(), Map.of(Initializer.BUFFER, "1"), c.unknown());
    }

    /** A node of ONNX's own with one output; the output's name. */
    String op(String path, String opType, List<String> in, Attribute... attributes) {
        return node(path, opType, "", in, attributes);
    }

    private String node(String path, String opType, String domain, List<String> in, Attribute... attributes) {
        String name = unique(path);
        nodes.add(Node.of(name, opType, domain, in, List.of(name + "_output"), attributes));
        return name + "_output";
    }

    /** A node of ONNX's own with several outputs, and their names. */
    List<String> ops(String path, String opType, List<String> in, int count, Attribute... attributes) {
        String name = unique(path);
        List<String> out = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            out.add(name + "_output" + (i == 0 ? "" : "_" + i));
        }
        nodes.add(Node.of(name, opType, in, out, attributes));
        return out;
    }

    /** A node of Octet's own with several outputs, and their names. */
    List<String> octet(String path, String opType, List<String> in, int count, Attribute... attributes) {
        List<String> out = ops(path, opType, in, count, attributes);
        Node last = nodes.removeLast();
        nodes.add(Node.of(last.name(), opType, Node.OCTET_DOMAIN, last.inputs(), last.outputs(), attributes));
        return out;
    }

    private String unique(String path) {
        int n = used.merge(path, 1, Integer::sum);
        return n == 1 ? path : unique(path + "_" + (n - 1));
    }

    /** As {@code /model/layers.0/self_attn} for {@code model.layers.0.self_attn}. */
    static String path(String module) {
        return "/" + module.replaceAll("\\.(?!\\d+(\\.|$))", "/");
    }

    /**
     * {@code nn.Linear}: weight [out, in].
     *
     * @param x the last axis has {@code in} elements
     */
    String linear(String module, String x, int in, int out, boolean bias) {
        return linear(module, x, stored(module + ".weight", out, in), bias ? stored(module + ".bias", out) : null, 1);
    }

    /** The Linear of a router, whose scores decide by small differences: in F32, never quantised. */
    String router(String module, String x, int in, int out, boolean bias) {
        String scores = linear(module, x, in, out, bias);
        nodes.add(nodes.removeLast().with(Attribute.of(Node.IN_F32, 1)));
        return scores;
    }

    /**
     * The same.
     *
     * @param targets whether the tokens are a decoder's, of which no mask says which are padding
     */
    String router(String module, String x, int in, int out, boolean bias, boolean targets) {
        String scores = router(module, x, in, out, bias);
        if (targets) {
            nodes.add(nodes.removeLast().with(Attribute.of(Node.UNMASKED, 1)));
        }
        return scores;
    }

    /** transformers' Conv1D: weight [in, out]. */
    String conv1d(String module, String x, int in, int out) {
        return linear(module, x, stored(module + ".weight", in, out), stored(module + ".bias", out), 0);
    }

    /** A Linear over constants of the graph. */
    String linear(String module, String x, String weight, @Nullable String bias, int transB) {
        return node(
                path(module),
                CanonicalOps.LINEAR,
                Node.OCTET_DOMAIN,
                bias == null ? List.of(x, weight) : List.of(x, weight, bias),
                Attribute.of("transB", transB));
    }

    /** {@code nn.LayerNorm} over the last axis. */
    String layerNorm(String module, String x, int size, double epsilon) {
        String weight = stored(module + ".weight", size);
        return layerNorm(path(module), List.of(x, weight, stored(module + ".bias", size)), epsilon);
    }

    /** LayerNorm without a bias. */
    String centredNorm(String module, String x, int size, double epsilon) {
        return layerNorm(path(module), List.of(x, stored(module + ".weight", size)), epsilon);
    }

    /** LayerNorm without a bias over each of {@code count} heads, which have weights of their own: [count, size]. */
    String centredHeadNorm(String module, String x, int count, int size, double epsilon) {
        String path = path(module);
        String centred = op(path + "/Sub", "Sub", List.of(x, mean(path + "/ReduceMean", x)));
        String squared = op(path + "/Mul_squared", "Mul", List.of(centred, centred));
        String small = floats("epsilon_" + epsilon, Shape.SCALAR, (float) epsilon);
        String variance = add(path, mean(path + "/ReduceMean_squared", squared), small);
        String root = op(path + "/Sqrt", "Sqrt", List.of(variance));
        String plain = op(path + "/Div", "Div", List.of(centred, root));
        return op(path + "/Mul", "Mul", List.of(plain, widened(module + ".weight", count, size)));
    }

    private String mean(String path, String x) {
        return op(path, "ReduceMean", List.of(x, longs("axes_last", Shape.of(1), -1)), Attribute.of("keepdims", 1));
    }

    private String layerNorm(String path, List<String> in, double epsilon) {
        return node(
                path,
                CanonicalOps.LAYER_NORM,
                Node.OCTET_DOMAIN,
                in,
                Attribute.of("axis", -1),
                Attribute.of("epsilon", (float) epsilon));
    }

    /** transformers' RMSNorm over the last axis: scaled behind the division. */
    String rmsNorm(String module, String x, int size, double epsilon) {
        return rmsNorm(module, x, stored(module + ".weight", size), epsilon);
    }

    /** RMSNorm over the last axis whose factor is 1 + weight (Gemma). */
    String offsetRmsNorm(String module, String x, int size, double epsilon) {
        String one = floats("norm_offset", Shape.SCALAR, 1);
        String weight = widened(module + ".weight", size);
        return rmsNorm(module, x, op(path(module) + "/weight/Add", "Add", List.of(weight, one)), epsilon);
    }

    private String rmsNorm(String module, String x, String weight, double epsilon) {
        return rmsNormOf(path(module), x, weight, epsilon);
    }

    /** RMSNorm over the last axis by a constant of the graph. */
    String rmsNormOf(String path, String x, String weight, double epsilon) {
        return node(
                path,
                CanonicalOps.RMS_NORM,
                Node.OCTET_DOMAIN,
                List.of(x, weight),
                Attribute.of("axis", -1),
                Attribute.of("epsilon", (float) epsilon));
    }

    /** {@code Gelu}; {@code approximate} is {@code none} or {@code tanh}. */
    String gelu(String path, String x, String approximate) {
        return node(path, CanonicalOps.GELU, Node.OCTET_DOMAIN, List.of(x), Attribute.of("approximate", approximate));
    }

    /** {@code nn.Embedding}: rows of the weight [count, size], as F32. */
    String embedding(String module, String ids, int count, int size) {
        return embedding(module, ids, count, size, Optional.empty());
    }

    /**
     * {@code nn.Embedding}: rows of the weight [count, size], as F32.
     *
     * @param padding the row that looking it up gives no gradient
     */
    String embedding(String module, String ids, int count, int size, Optional<Integer> padding) {
        String table = stored(module + ".weight", count, size);
        String rows = op(path(module), "Gather", List.of(table, ids), Attribute.of("axis", 0));
        padding.ifPresent(p -> nodes.add(nodes.removeLast().withMetadata(Map.of(Node.PADDING_INDEX, p.toString()))));
        Initializer constant = initializers.get(table);
        boolean narrow = constant != null
                && constant.tensor().map(t -> t.dtype() != DType.F32).orElse(false);
        return narrow ? toF32(path(module), rows) : rows;
    }

    /** {@code x} times a number; {@code x} itself for 1. */
    String scaled(String path, String x, String name, float factor) {
        return factor == 1 ? x : op(path + "/Mul", "Mul", List.of(x, floats(name, Shape.SCALAR, factor)));
    }

    /** {@code x} cut along its last axis into parts of these sizes. */
    List<String> split(String path, String x, long... sizes) {
        String name = "parts_" + Arrays.stream(sizes).mapToObj(Long::toString).collect(Collectors.joining("_"));
        String parts = longs(name, Shape.of(sizes.length), sizes);
        return ops(path + "/Split", "Split", List.of(x, parts), sizes.length, Attribute.of("axis", -1));
    }

    String add(String path, String a, String b) {
        return op(path + "/Add", "Add", List.of(a, b));
    }

    /** The graph of all that was added, outputs under their names. */
    Graph build(String name) {
        List<Node> all = new ArrayList<>();
        for (Node n : nodes) {
            Node m = n.withInputs(n.inputs().stream().map(this::named).toList());
            all.add(m.withOutputs(m.outputs().stream().map(this::named).toList()));
        }
        return Graph.of(name, all, List.copyOf(initializers.values()), inputs, outputs);
    }

    private String named(String value) {
        return renamed.getOrDefault(value, value);
    }
}
