package dev.octet.converter.verify;

import dev.octet.converter.inspect.QuantizedConstant;
import dev.octet.converter.inspect.QuantizedConstants;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * An ONNX model as rules see it: all nodes, also those nested in control flow and local functions, with producers and constants by name.
 */
final class GraphSubject {
    private final Path path;
    private final GraphModel model;
    private final List<Node> nodes = new ArrayList<>();
    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, Integer> readers = new HashMap<>();
    private final Map<String, Tensor> constants = new HashMap<>();
    private final Map<String, QuantizedConstant> quantized;
    private final @Nullable OriginalDiff diff;

    /** Operators that hand codes on as they are. */
    private static final Set<String> CARRY = Set.of(
            "Reshape",
            "Transpose",
            "Flatten",
            "Squeeze",
            "Unsqueeze",
            "Identity",
            "Gather",
            "Slice",
            "Split",
            "Expand",
            "MaxPool");

    /** Nodes that the search goes back through. */
    private static final int MAX_STEPS = 12;

    /**
     * Codes as a node makes them.
     *
     * @param scale name of the scale
     * @param zero name of the zero point; empty for none
     * @param type null where it is unknown
     */
    record Made(
            Node node, String scale, String zero, @Nullable DType type) {}

    /**
     * Codes as a node reads them.
     *
     * @param scale name of the scale; empty where the node has none
     * @param zero name of the zero point; empty for none
     */
    record Read(Node node, String codes, String scale, String zero) {
        private static Read of(Node node, int codes, int scale, int zero) {
            return new Read(node, node.input(codes), scale < 0 ? "" : node.input(scale), node.input(zero));
        }
    }

    GraphSubject(Path path, GraphModel model) {
        this(path, model, null);
    }

    /** @param diff the model compared with its original; null where it was not */
    private GraphSubject(Path path, GraphModel model, @Nullable OriginalDiff diff) {
        this.path = path;
        this.model = model;
        this.diff = diff;
        add(model.graph());
        for (Function function : model.functions()) {
            addAll(function.nodes());
        }
        for (Node node : nodes) {
            node.outputs().forEach(o -> producers.putIfAbsent(o, node));
            node.inputs().forEach(i -> readers.merge(i, 1, Integer::sum));
            if (!node.output().isEmpty()
                    && node.is("Constant")
                    && node.attribute("value").orElse(null) instanceof Attribute.OfTensor(Initializer value)) {
                value.tensor().ifPresent(t -> constants.putIfAbsent(node.output(), t));
            }
        }
        this.quantized = QuantizedConstants.of(nodes, this::constant);
    }

    /**
     * The same, with every quantised weight compared with that of the model it was made from.
     *
     * @throws dev.octet.formats.error.OctetException when the original is not a model, or has no weight in common
     * @throws IOException when a file cannot be read
     */
    GraphSubject against(Path original, int threads) throws IOException {
        return new GraphSubject(path, model, OriginalDiff.of(original, path, quantized.keySet(), threads));
    }

    /** The model compared with its original; null where it was not. */
    @Nullable
    OriginalDiff diff() {
        return diff;
    }

    /** Quantised weights by the names of their codes. */
    Map<String, QuantizedConstant> quantized() {
        return quantized;
    }

    /** How codes were made, that may have been moved about since; null for constants and where it is unknown. */
    @Nullable
    Made made(String codes) {
        Node node = producer(codes);
        for (int step = 0; step < MAX_STEPS && node != null; step++) {
            if (node.is("QuantizeLinear")) {
                return new Made(node, node.input(1), node.input(2), output(node));
            }
            if (node.is("DynamicQuantizeLinear")) {
                return new Made(node, node.output(1), node.output(2), DType.U8);
            }
            if (node.is("QLinearMatMul") || node.is("QLinearConv")) {
                DType type = constant(node.input(7)).map(Tensor::dtype).orElse(null);
                return new Made(node, node.input(6), node.input(7), type);
            }
            node = node.domain().isEmpty() && CARRY.contains(node.opType()) ? producer(node.input(0)) : null;
        }
        return null;
    }

    /** All places where nodes of ONNX's own operators read codes. */
    List<Read> reads() {
        List<Read> reads = new ArrayList<>();
        for (Node node : nodes) {
            switch (node.domain().isEmpty() ? node.opType() : "") {
                case "DequantizeLinear" -> reads.add(Read.of(node, 0, 1, 2));
                case "QLinearMatMul", "QLinearConv" -> {
                    reads.add(Read.of(node, 0, 1, 2));
                    reads.add(Read.of(node, 3, 4, 5));
                }
                case "MatMulInteger", "ConvInteger" -> {
                    reads.add(Read.of(node, 0, -1, 2));
                    reads.add(Read.of(node, 1, -1, 3));
                }
                default -> {}
            }
        }
        return reads;
    }

    /** The number type of codes; null where unknown. */
    @Nullable
    DType codes(String value) {
        Optional<Tensor> constant = constant(value);
        if (constant.isPresent()) {
            return constant.get().dtype();
        }
        Made made = made(value);
        if (made != null) {
            return made.type();
        }
        Node producer = producer(value);
        return producer != null && producer.is("Gather") ? codes(producer.input(0)) : null;
    }

    /** Whether a value comes out of a DequantizeLinear of codes of 8 bits or fewer. */
    boolean isDequantized(String value) {
        Node node = producer(value);
        DType codes = node != null && node.is("DequantizeLinear") ? codes(node) : null;
        return codes != null && codes.bits() <= Byte.SIZE;
    }

    private void add(Graph graph) {
        for (Initializer initializer : graph.initializers().values()) {
            initializer.tensor().ifPresent(t -> constants.putIfAbsent(initializer.name(), t));
        }
        graph.outputs().forEach(o -> readers.merge(o.name(), 1, Integer::sum));
        addAll(graph.nodes());
    }

    private void addAll(List<Node> more) {
        for (Node node : more) {
            nodes.add(node);
            node.subgraphs().forEach(this::add);
        }
    }

    /** The file. */
    Path path() {
        return path;
    }

    GraphModel model() {
        return model;
    }

    /** All nodes of one of ONNX's own operators. */
    Stream<Node> nodes(String operator) {
        return nodes.stream().filter(n -> n.is(operator));
    }

    /** All nodes. */
    List<Node> nodes() {
        return nodes;
    }

    /** All constants with their names. */
    Map<String, Tensor> constants() {
        return constants;
    }

    /** The node that makes a value; null for inputs and constants. */
    @Nullable
    Node producer(String value) {
        return value.isEmpty() ? null : producers.get(value);
    }

    /** How many inputs of nodes and outputs of graphs a value is. */
    int readers(String value) {
        return readers.getOrDefault(value, 0);
    }

    /** The constant of this name. */
    Optional<Tensor> constant(String value) {
        return Optional.ofNullable(constants.get(value));
    }

    /** The output type of a QuantizeLinear; null where the model does not give one. */
    @Nullable
    DType output(Node quantize) {
        long declared = quantize.intAttribute("output_dtype", 0);
        if (declared != 0) {
            return DType.ofOnnxId((int) declared).orElse(null);
        }
        return quantize.hasInput(2)
                ? constant(quantize.input(2)).map(Tensor::dtype).orElse(null)
                : DType.U8;
    }

    /** The number type of the codes that a DequantizeLinear takes; null where unknown. */
    @Nullable
    DType codes(Node dequantize) {
        Optional<Tensor> constant = constant(dequantize.input(0));
        if (constant.isPresent()) {
            return constant.get().dtype();
        }
        Node producer = producer(dequantize.input(0));
        if (producer != null && producer.is("QuantizeLinear")) {
            return output(producer);
        }
        return constant(dequantize.input(2)).map(Tensor::dtype).orElse(null);
    }

    /** Whether a value comes out of a DequantizeLinear of 8-bit floats. */
    boolean isDequantizedFloat8(String value) {
        Node node = producer(value);
        DType codes = node != null && node.is("DequantizeLinear") ? codes(node) : null;
        return codes != null && codes.isFloat8();
    }

    /** Whether a value is quantised to 8-bit floats and back while the model runs: an activation, no weight. */
    boolean isQuantizedActivation(String value) {
        Node node = producer(value);
        if (node == null || !isDequantizedFloat8(value)) {
            return false;
        }
        Node quantize = producer(node.input(0));
        return quantize != null
                && quantize.is("QuantizeLinear")
                && constant(quantize.input(0)).isEmpty();
    }

    /** All QuantizeLinear to 8-bit floats. */
    Stream<Node> float8Quantizers() {
        return nodes("QuantizeLinear").filter(n -> {
            DType type = output(n);
            return type != null && type.isFloat8();
        });
    }

    /** All DequantizeLinear of 8-bit floats. */
    Stream<Node> float8Dequantizers() {
        return nodes("DequantizeLinear").filter(n -> {
            DType type = codes(n);
            return type != null && type.isFloat8();
        });
    }
}
