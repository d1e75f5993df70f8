package dev.octet.converter.sensitivity;

import dev.octet.converter.checkpoint.QuantizedValues;
import dev.octet.converter.infer.Analysis;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A model whose Linears can be quantised one by one without loading it again: their weights are inputs, [in, out], and the rounding of each
 * Linear's input lies in an If whose condition is an input, too.
 *
 * <p>ONNX Runtime multiplies with weights that are inputs about a tenth slower than with constants, and loads MiniLM (90 MB) in the time of
 * four batches; one load for each layer and format would therefore double the time, and more for larger models.
 *
 * @param model standard ONNX
 * @param weights the model's own weights by input, [in, out], of the type that the product is computed in
 * @param switches the condition's input by weight; a layer whose input is never rounded has none
 */
record SwitchedGraph(GraphModel model, Map<String, DType> weights, Map<String, String> switches) {
    /** Prefix of outputs with the largest magnitudes of a Linear's input. */
    static final String AMAX = "octet_amax/";

    private static final String SWITCH = "octet_switch/";
    private static final int OPSET = 21;

    /**
     * The model with the largest magnitude of each token of each Linear's input as further outputs, and no switches.
     */
    static SwitchedGraph observed(GraphModel canonical, List<LinearLayer> layers, Arena arena) {
        Work work = new Work(canonical, layers, null, Map.of(), arena);
        work.weights();
        work.observe();
        return work.done();
    }

    /**
     * The model with a switch for each layer.
     *
     * @param inputAmax largest magnitude by value that a Linear reads
     */
    static SwitchedGraph of(
            GraphModel canonical,
            List<LinearLayer> layers,
            LinearFormat format,
            Map<String, Float> inputAmax,
            Arena arena) {
        Work work = new Work(canonical, layers, format, inputAmax, arena);
        work.weights();
        work.switches();
        return work.done();
    }

    /** The graph during the change. */
    private static final class Work {
        private final GraphModel canonical;
        private final GraphEdit edit;
        private final Analysis types;
        private final Map<String, LinearLayer> byNode = new HashMap<>();
        private final @Nullable LinearFormat format;
        private final Map<String, Float> inputAmax;
        private final Arena arena;
        private final Map<String, DType> weights = new LinkedHashMap<>();
        private final Map<String, String> switches = new LinkedHashMap<>();
        private final Set<String> taken = new LinkedHashSet<>();

        Work(
                GraphModel canonical,
                List<LinearLayer> layers,
                @Nullable LinearFormat format,
                Map<String, Float> inputAmax,
                Arena arena) {
            this.canonical = canonical;
            this.edit = GraphEdit.of(canonical.graph());
            this.types = Analysis.of(canonical);
            this.format = format;
            this.inputAmax = inputAmax;
            this.arena = arena;
            layers.forEach(l -> l.nodes().forEach(n -> byNode.put(n, l)));
            taken.addAll(canonical.graph().definitions());
        }

        private DType computedIn(Node linear) {
            DType x = types.dtype(linear.input(0));
            return x == null ? DType.F32 : x;
        }

        void weights() {
            List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
            for (Node n : edit.nodes()) {
                LinearLayer layer = byNode.get(n.id());
                if (layer == null) {
                    continue;
                }
                edit.replace(n, n.with(Attribute.of("transB", 0)));
                if (weights.put(layer.weight(), computedIn(n)) == null) {
                    leaveToOthers(layer);
                    inputs.removeIf(i -> i.name().equals(layer.weight()));
                    List<Dim> dims = List.of(
                            Dim.of(layer.shape().dim(1)), Dim.of(layer.shape().dim(0)));
                    inputs.add(new ValueInfo(layer.weight(), new ValueType.TensorType(computedIn(n), dims)));
                }
            }
            edit.setInputs(inputs);
        }

        /** Takes the constant away; nodes that are not measured read a copy of it under another name. */
        private void leaveToOthers(LinearLayer layer) {
            Initializer constant = Objects.requireNonNull(edit.initializer(layer.weight()));
            List<Node> others = edit.consumers(layer.weight()).stream()
                    .filter(c -> !byNode.containsKey(c.id()))
                    .toList();
            if (!others.isEmpty() || edit.isOutput(layer.weight())) {
                String copy = edit.freshName(layer.weight() + "_constant");
                edit.putInitializer(
                        Initializer.of(constant.tensor().orElseThrow().withName(copy)));
                for (Node other : others) {
                    edit.replace(
                            other,
                            other.withInputs(other.inputs().stream()
                                    .map(i -> i.equals(layer.weight()) ? copy : i)
                                    .toList()));
                }
            }
            edit.removeInitializer(layer.weight());
        }

        void observe() {
            List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
            Set<String> seen = new LinkedHashSet<>();
            String axes = edit.freshName("octet_last_axis");
            edit.putInitializer(Initializer.of(Tensor.ofLongs(arena, axes, Shape.of(1), -1)));
            for (Node n : edit.nodes()) {
                if (byNode.containsKey(n.id()) && seen.add(n.input(0))) {
                    String magnitude = edit.freshName(n.input(0) + "_magnitude");
                    String amax = AMAX + n.input(0);
                    edit.insertBefore(
                            n,
                            Node.of(magnitude, "Abs", List.of(n.input(0)), List.of(magnitude)),
                            Node.of(
                                    amax,
                                    "ReduceMax",
                                    List.of(magnitude, axes),
                                    List.of(amax),
                                    Attribute.of("keepdims", 1)));
                    outputs.add(new ValueInfo(amax, new ValueType.TensorType(computedIn(n), null)));
                }
            }
            edit.setOutputs(outputs);
        }

        void switches() {
            OperandSpec input = format == null ? null : format.input();
            if (input == null) {
                return;
            }
            List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
            Set<String> declared = new LinkedHashSet<>();
            for (Node n : edit.nodes()) {
                LinearLayer layer = byNode.get(n.id());
                if (layer == null) {
                    continue;
                }
                String condition = SWITCH + layer.weight();
                if (declared.add(condition)) {
                    inputs.add(new ValueInfo(condition, new ValueType.TensorType(DType.BOOL, List.of())));
                    switches.put(layer.weight(), condition);
                }
                String x = n.input(0);
                String y = edit.freshName(x + "_switched");
                Node choice = Node.of(
                                y,
                                "If",
                                List.of(condition),
                                List.of(y),
                                new Attribute("then_branch", new Attribute.OfGraph(branch(n, input, layer))))
                        .with(new Attribute("else_branch", new Attribute.OfGraph(branch(n, null, layer))));
                edit.insertBefore(n, choice);
                ValueType known = types.type(x); // a bias of a narrower type is widened to it
                edit.putValueInfo(
                        new ValueInfo(y, known == null ? new ValueType.TensorType(computedIn(n), null) : known));
                List<String> read = new ArrayList<>(n.inputs());
                read.set(0, y);
                edit.replace(n, n.withInputs(read));
            }
            edit.setInputs(inputs);
        }

        /** A graph without inputs whose one output is the value that a Linear reads, rounded or, without a spec, as it is. */
        private Graph branch(Node linear, @Nullable OperandSpec spec, LinearLayer layer) {
            String x = linear.input(0);
            GraphEdit inner = GraphEdit.of(Graph.of("branch", List.of(), List.of(), List.of(), List.of()), taken);
            String y = inner.freshName(x + (spec == null ? "_plain" : "_rounded"));
            DType type = computedIn(linear);
            Node end = Node.of(y, "Identity", List.of(x), List.of(y));
            inner.append(end);
            if (spec != null) {
                String wide = x;
                if (type != DType.F32) {
                    wide = inner.freshName(x + "_f32");
                    inner.insertBefore(
                            end,
                            Node.of(wide, "Cast", List.of(x), List.of(wide), Attribute.of("to", DType.F32.onnxId())));
                }
                String rounded = rounded(new QuantizedValues(inner, arena), end, wide, spec, layer, x);
                inner.replace(
                        end,
                        type == DType.F32
                                ? end.withInputs(List.of(rounded))
                                : Node.of(y, "Cast", List.of(rounded), List.of(y), Attribute.of("to", type.onnxId())));
            }
            inner.setOutputs(List.of(new ValueInfo(y, new ValueType.TensorType(type, null))));
            return inner.build();
        }

        private String rounded(
                QuantizedValues values, Node end, String x, OperandSpec spec, LinearLayer layer, String observed) {
            float amax = inputAmax.getOrDefault(observed, 0f);
            long width = layer.shape().dim(1);
            if (spec.type().isInteger() && spec.perTensor()) {
                return values.affine(end, x); // a calibrated range does about as well as each batch's own
            }
            if (!spec.isDynamic()) {
                return amax == 0 ? x : values.statically(end, x, amax / Float8Format.E4M3FN.maxValue());
            }
            return switch (spec.granularity()) {
                case Granularity.PerTensor() -> values.perTensor(end, x);
                case Granularity.PerToken() ->
                    spec.type() == QuantType.INT8 ? values.integers(end, x) : values.perToken(end, x);
                case Granularity.PerGroup(int _, int size) -> {
                    if (spec.type() != QuantType.E2M1) {
                        yield values.perGroup(end, x, width, size);
                    }
                    float largest = Float8Format.E4M3FN.maxValue() * Float8Format.E2M1.maxValue();
                    yield amax == 0
                            ? x
                            : values.fourBits(end, x, width, size, Math.max(amax / largest, Float.MIN_NORMAL));
                }
                case Granularity.Mx(int _, int size) -> values.microscaled(end, x, width, size);
                case Granularity.PerChannel _, Granularity.PerBlock _ ->
                    throw new IllegalStateException(
                            "no input is quantised " + spec.granularity().text());
            };
        }

        SwitchedGraph done() {
            GraphModel model = canonical.withGraph(edit.build());
            boolean attention = model.graph().nodes().stream().anyMatch(n -> n.is("Attention"));
            GraphModel standard = attention
                    ? Lowering.standard(model, OPSET, new PassLog())
                    : new StandardOps().apply(model, new PassLog());
            return new SwitchedGraph(standard, weights, switches);
        }
    }
}
