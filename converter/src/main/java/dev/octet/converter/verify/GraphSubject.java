package dev.octet.converter.verify;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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

    GraphSubject(Path path, GraphModel model) {
        this.path = path;
        this.model = model;
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
