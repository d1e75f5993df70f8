package dev.octet.converter.compare;

import dev.octet.converter.inspect.DequantizedConstant;
import dev.octet.converter.inspect.GatheredTable;
import dev.octet.converter.rule.ModulePath;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
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
 * The weights of an ONNX model: the float constants of its main graph. The codes, constant scale and constant zero point of a {@code
 * DequantizeLinear} together form one weight, its output. Integers count as shapes and indices and are left out, and so are constants of
 * one element without a counterpart.
 *
 * <p>The file is mapped, not read: touched pages count as memory of the process until the system needs them.
 */
final class OnnxSource implements WeightSource {
    /** Most nodes between a constant and its product. */
    private static final int MOST_STEPS = 4;

    private static final Set<String> PRODUCTS = Set.of("MatMul", "Gemm", "Linear", "QuantizedLinear", "Conv");
    private static final Set<String> PASSES_ON =
            Set.of("DequantizeLinear", "Transpose", "Identity", "Cast", "QuantizeLinear");

    private final ModelFile file;
    private final Graph graph;
    private final Map<String, List<Node>> consumers = new HashMap<>();
    private final Map<String, Weight> weights = new LinkedHashMap<>();
    private final Map<String, String> problems = new LinkedHashMap<>();

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
        Map<String, Node> dequantizers = dequantizers();
        Set<String> parts = new HashSet<>();
        graph.nodes().stream()
                .filter(n -> n.opType().equals("DequantizeLinear") || n.opType().equals("QuantizeLinear"))
                .forEach(n -> parts.add(n.input(2))); // zero points
        dequantizers.values().forEach(dq -> parts.addAll(List.of(dq.input(1), dq.input(2))));
        Map<String, GatheredTable> tables = GatheredTable.of(graph);
        tables.values().forEach(t -> parts.addAll(List.of(t.codes(), t.scales())));
        for (Initializer i : graph.initializers().values()) {
            Optional<Tensor> tensor = i.tensor();
            GatheredTable table = tables.get(i.name());
            if (tensor.isPresent() && table != null) {
                addTable(i.name(), tensor.get(), table.scales());
            } else if (tensor.isPresent() && !parts.contains(i.name())) {
                add(i.name(), tensor.get(), dequantizers.get(i.name()));
            }
        }
    }

    /** A table of integers with one scale per row, dequantised after its rows are gathered. */
    private void addTable(String name, Tensor codes, String scales) {
        Tensor scale = tensor(scales).orElseThrow();
        Granularity perRow = new Granularity.PerChannel(-2);
        OnnxElements elements = new OnnxElements(codes, QuantType.INT8, perRow, scale, null);
        weights.put(
                name,
                new Weight(
                        name,
                        modules(name),
                        codes.shape(),
                        QuantType.INT8 + " " + perRow.text() + ", scale " + scale.dtype(),
                        NumberGrid.quantized(QuantType.INT8, scale.dtype()),
                        elements,
                        elements.scales(),
                        Double.NaN));
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

    /** The first node that dequantises each constant. */
    private Map<String, Node> dequantizers() {
        Map<String, Node> found = new HashMap<>();
        for (Node node : graph.nodes()) {
            boolean dequantizes = node.opType().equals("DequantizeLinear");
            if (dequantizes
                    && tensor(node.input(0)).isPresent()
                    && tensor(node.input(1)).isPresent()) {
                found.putIfAbsent(node.input(0), node);
            }
        }
        return found;
    }

    private Optional<Tensor> tensor(String name) {
        return Optional.ofNullable(graph.initializers().get(name)).flatMap(Initializer::tensor);
    }

    private void add(String name, Tensor tensor, @Nullable Node dequantizer) {
        DType type = tensor.dtype();
        if (dequantizer != null) {
            addQuantized(name, tensor, dequantizer);
        } else if (type.isFloat() && PlainNumbers.readable(type)) {
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

    private void addQuantized(String name, Tensor codes, Node dequantizer) {
        Tensor scale = tensor(dequantizer.input(1)).orElseThrow();
        Optional<Tensor> zeroPoint = tensor(dequantizer.input(2));
        QuantType kind;
        if (codes.dtype() == DType.I8 || codes.dtype() == DType.U8) {
            boolean shifted = codes.dtype() == DType.U8
                    || zeroPoint.filter(OnnxElements::notZero).isPresent();
            kind = shifted ? QuantType.INT8_ASYMMETRIC : QuantType.INT8;
        } else {
            Optional<QuantType> float8 = Float8Format.of(codes.dtype())
                    .flatMap(QuantType::of)
                    .filter(c -> codes.dtype().bits() == 8);
            if (float8.isEmpty()) {
                problems.put(name, codes.dtype() + " codes, which Octet does not dequantise in ONNX");
                return;
            }
            kind = float8.get();
        }
        DequantizedConstant stored = new DequantizedConstant(dequantizer, codes, scale);
        Optional<Granularity> granularity = stored.granularity();
        boolean scaleReadable = scale.dtype() == DType.F32 || scale.dtype() == DType.F16 || scale.dtype() == DType.BF16;
        if (granularity.isEmpty() || !scaleReadable) {
            problems.put(name, "a scale " + scale.spec() + " that does not fit codes " + codes.shape());
            return;
        }
        OnnxElements elements = new OnnxElements(codes, kind, granularity.get(), scale, zeroPoint.orElse(null));
        weights.put(
                name,
                new Weight(
                        name,
                        modules(name),
                        codes.shape(),
                        stored.form(),
                        NumberGrid.quantized(kind, scale.dtype()),
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
                    boolean weightOf =
                            PRODUCTS.contains(node.opType()) && node.inputs().indexOf(value) == 1;
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
        return weight.shape().elementCount() > 1;
    }

    @Override
    public void close() {
        file.close();
    }
}
