package dev.octet.converter.compare;

import dev.octet.converter.inspect.QuantizedConstant;
import dev.octet.converter.inspect.QuantizedConstants;
import dev.octet.converter.inspect.WeightOperator;
import dev.octet.converter.rule.ModulePath;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The weights of an ONNX model: the float constants of its main graph, initializers and Constant nodes. Codes with their
 * constant scales and zero points form one weight ({@link QuantizedConstants}). Integers count as shapes and indices and are left out, and so are constants
 * without a counterpart that have one element, or come from a Constant node and are no weight of a product.
 *
 * <p>The file is mapped, not read: touched pages count as memory of the process until the system needs them.
 */
final class OnnxSource implements WeightSource {
    /** Most nodes between a constant and its product. */
    private static final int MOST_STEPS = 4;

    private static final Set<String> PASSES_ON =
            Set.of("DequantizeLinear", "Transpose", "Identity", "Cast", "QuantizeLinear");

    private final ModelFile file;
    private final Graph graph;
    private final Map<String, List<Node>> consumers = new HashMap<>();
    private final Map<String, Weight> weights = new LinkedHashMap<>();
    private final Map<String, String> problems = new LinkedHashMap<>();
    private final Set<String> fromNodes = new HashSet<>();

    private OnnxSource(ModelFile file) {
        this.file = file;
        this.graph = file.model()
                .graph()
                .orElseThrow(() -> new UnsupportedModelException(
                        "the model has no graph", file.path().toString(), "give a safetensors or ONNX model"))
                .graph();
        for (Node node : graph.nodes()) {
            new LinkedHashSet<>(node.inputs())
                    .forEach(i ->
                            consumers.computeIfAbsent(i, k -> new ArrayList<>()).add(node));
        }
        Map<String, QuantizedConstant> quantized = QuantizedConstants.of(graph);
        Set<String> parts = new HashSet<>();
        graph.nodes().stream()
                .filter(n -> n.opType().equals("DequantizeLinear") || n.opType().equals("QuantizeLinear"))
                .forEach(n -> parts.add(n.input(2))); // zero points
        quantized.values().forEach(q -> parts.addAll(q.scaleNames()));
        graph.initializers().forEach((name, i) -> i.tensor().ifPresent(t -> add(name, t, quantized.get(name), parts)));
        for (Node node : graph.nodes()) { // some exporters write every weight as a Constant
            if (node.is("Constant")
                    && node.attribute("value").orElse(null) instanceof Attribute.OfTensor(Initializer value)) {
                value.tensor().filter(t -> t.shape().elementCount() > 1).ifPresent(t -> {
                    fromNodes.add(node.output());
                    add(node.output(), t, quantized.get(node.output()), parts);
                });
            }
        }
    }

    private void add(String name, Tensor tensor, @Nullable QuantizedConstant codes, Set<String> parts) {
        if (codes != null) {
            add(codes);
        } else if (!parts.contains(name)) {
            add(name, tensor);
        }
    }

    /**
     * Opens a model.
     *
     * @throws dev.octet.formats.error.OctetException when the file is not a model, or breaks a rule of its format
     */
    static OnnxSource open(Path path) throws IOException {
        ModelFile file = ModelFile.open(path);
        boolean opened = false;
        try {
            OnnxSource source = new OnnxSource(file);
            opened = true;
            return source;
        } finally {
            if (!opened) {
                file.close();
            }
        }
    }

    private void add(String name, Tensor tensor) {
        DType type = tensor.dtype();
        if (type.isFloat() && PlainNumbers.readable(type)) {
            weights.put(
                    name,
                    new Weight(
                            name,
                            modules(name),
                            tensor.shape(),
                            type.safetensorsName().orElse(type.name()),
                            NumberGrid.plain(type),
                            new OnnxElements(tensor),
                            null,
                            Double.NaN));
        } else if (type.isFloat()) {
            problems.put(name, type + " codes that no DequantizeLinear with a constant scale reads");
        }
    }

    private void add(QuantizedConstant codes) {
        String name = codes.name();
        Optional<String> problem = codes.problem();
        if (problem.isPresent()) {
            problems.put(name, problem.get());
            return;
        }
        List<String> names = new ArrayList<>(modules(name));
        names.addAll(codes.originalNames());
        OnnxElements elements = new OnnxElements(codes);
        weights.put(
                name,
                new Weight(
                        name,
                        names,
                        codes.codes().shape(),
                        codes.form(),
                        NumberGrid.quantized(
                                codes.kind().orElseThrow(), codes.scale().dtype()),
                        elements,
                        elements.scales(),
                        Double.NaN));
    }

    /** The weight names of the modules whose products use a constant: {@code encoder.layer.0.attention.self.query.weight}. */
    private List<String> modules(String name) {
        List<String> found = new ArrayList<>();
        Deque<String> open = new ArrayDeque<>(List.of(name));
        for (int step = 0; step < MOST_STEPS; step++) {
            Deque<String> next = new ArrayDeque<>();
            for (String value : open) {
                for (Node node : consumers.getOrDefault(value, List.of())) {
                    ModulePath path = ModulePath.of(node);
                    boolean weightOf = WeightOperator.of(node)
                            .filter(o -> o.kind() != WeightOperator.Kind.ATTENTION) // of three modules in one
                            .filter(o -> o.weight() == node.inputs().indexOf(value))
                            .isPresent();
                    if (weightOf && path != null) {
                        found.add(path.dotted() + ".weight");
                    } else if (PASSES_ON.contains(node.opType())
                            && !node.outputs().isEmpty()) {
                        next.add(node.output());
                    }
                }
            }
            open = next;
        }
        return found;
    }

    @Override
    public String format() {
        return "onnx";
    }

    @Override
    public Map<String, Weight> weights() {
        return weights;
    }

    @Override
    public Map<String, String> problems() {
        return problems;
    }

    @Override
    public Optional<String> rounding() {
        return Optional.ofNullable(file.model().metadata().get(DeclaredRounding.KEY));
    }

    @Override
    public List<String> notes() {
        return List.of();
    }

    @Override
    public boolean listed(Weight weight) {
        // a Constant node may also hold what an exporter folded, such as the frequencies of a rotary embedding
        return weight.shape().elementCount() > 1
                && (!fromNodes.contains(weight.name()) || !weight.names().isEmpty());
    }

    @Override
    public void close() {
        file.close();
    }
}
