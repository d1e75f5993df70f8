package dev.octet.converter.plan;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Carries a plan out: Linears become {@code QuantizedLinear}, the normalisations before them {@code QuantizingLayerNorm} or
 * {@code QuantizingRmsNorm}, other inputs pass through one {@code Quantize} each. Products of attention with static scales become {@code QuantizedProduct}. Every value is quantised once, however many nodes read it.
 *
 * <p>Codes keep the name of the weight they replace when all its readers are converted; its scale is {@code <stem>.weight_scale}
 * and the activation's {@code <stem>.input_scale}, the names that checkpoint formats use.
 */
public final class PlanRewrite {
    /** The rewritten graph, and what became of each Linear, then of each embedding and convolution. */
    public record Result(GraphModel model, List<LayerResult> layers) {
        public Result {
            layers = List.copyOf(layers);
        }
    }

    private final GraphModel model;
    private final GraphEdit edit;
    private final Plan plan;
    private final Analysis types;
    private final Map<String, ActivationScale> activations;
    private final Set<String> integerProducts;
    private final WeightQuantizer quantizer;
    private final Arena arena;
    private final Map<Form, Weight> weights = new HashMap<>();
    private final Map<String, Tensor> originals = new HashMap<>();
    private final Map<String, String> products = new HashMap<>();
    private final List<LayerResult> layers = new ArrayList<>();

    /** A weight as one recipe has it. */
    private record Form(String name, OperandSpec spec, boolean dynamic) {}

    /** @param zeros name of the zero points; empty for symmetric codes */
    private record Weight(String codes, String scale, String zeros, QuantizedTensor quantized, Tensor original) {}

    /** @param zero name of the code of zero; empty for symmetric codes */
    private record Activation(String codes, String scale, String zero) {}

    private PlanRewrite(
            GraphModel model,
            Plan plan,
            Map<String, ActivationScale> activations,
            WeightQuantizer quantizer,
            Arena arena) {
        this.model = model;
        this.edit = GraphEdit.of(model.graph());
        this.types = Analysis.of(model);
        this.plan = plan;
        this.activations = activations;
        this.integerProducts = plan.integerProducts();
        this.quantizer = quantizer;
        this.arena = arena;
    }

    /**
     * Rewrites the graph.
     *
     * @param model canonical; every node the plan names is in it
     * @param activations a scale for each of {@link Plan#taps()}
     * @param arena owns the codes and scales
     * @throws IllegalArgumentException when a scale is missing
     */
    public static Result apply(
            GraphModel model,
            Plan plan,
            Map<String, ActivationScale> activations,
            WeightQuantizer quantizer,
            Arena arena) {
        return new PlanRewrite(model, plan, activations, quantizer, arena).run();
    }

    private Result run() {
        Map<String, Node> nodes = edit.nodes().stream().collect(Collectors.toMap(Node::id, n -> n, (a, b) -> a));
        Map<String, Activation> quantised = new HashMap<>();
        Map<String, List<Node>> byInput = new LinkedHashMap<>();
        for (Decision.Converted d : plan.converted(LayerKind.LINEAR)) {
            if (plan.recipe(d).input() != null) {
                byInput.computeIfAbsent(d.input(), k -> new ArrayList<>()).add(node(nodes, d));
            }
        }
        Map<String, Decision.Converted> norms = plan.converted().stream()
                .filter(d -> d.kind().isNorm())
                .collect(Collectors.toMap(d -> node(nodes, d).output(), d -> d));
        Map<String, OperandSpec> operands = plan.quantizedInputs();
        byInput.forEach((x, linears) -> {
            OperandSpec operand = Objects.requireNonNull(operands.get(x));
            quantised.put(
                    x,
                    operand.isDynamic()
                            ? quantizeAtRunTime(x, linears.getFirst())
                            : quantizeInput(x, operand, linears, norms.get(x)));
        });
        for (Decision.Converted d : plan.converted(LayerKind.LINEAR)) {
            Recipe recipe = plan.recipe(d);
            Activation input = recipe.input() == null ? null : quantised.get(d.input());
            rewriteLinear(node(nodes, d), recipe, Optional.ofNullable(input));
        }
        EmbeddingRewrite embeddings = new EmbeddingRewrite(edit, arena);
        for (Decision.Converted d : plan.converted(LayerKind.EMBEDDING)) {
            layers.add(embeddings.rewrite(node(nodes, d)));
        }
        DynamicProducts dynamic = new DynamicProducts(edit, arena);
        ConvolutionWeights convolutions = new ConvolutionWeights(edit, arena);
        for (Decision.Converted d :
                plan.converted()) { // in the graph's order: codes are made before their first reader
            if (d.kind() == LayerKind.CONV) {
                OperandSpec weight = plan.recipe(d).weight();
                layers.add(
                        weight.type().isInteger()
                                ? dynamic.convolution(node(nodes, d))
                                : convolutions.rewrite(node(nodes, d), weight));
            } else if (d.kind() == LayerKind.ATTENTION && plan.recipe(d).isDynamic()) {
                dynamic.product(node(nodes, d), dtype(d.input()));
            } else if (d.kind() == LayerKind.ATTENTION) {
                rewriteProduct(
                        node(nodes, d), Objects.requireNonNull(plan.recipe(d).input()));
            }
        }
        edit.removeUnreachable();
        return new Result(model.withGraph(edit.build()).withOpset(Node.OCTET_DOMAIN, 1, model.irVersion()), layers);
    }

    private @Nullable DType dtype(String value) {
        ValueType.TensorType type = types.type(value);
        return type == null ? null : type.dtype();
    }

    /** A product of two computed values, each with the scale of its own. */
    private void rewriteProduct(Node n, OperandSpec operand) {
        List<String> inputs = new ArrayList<>();
        for (String value : n.inputs()) {
            inputs.add(value);
            inputs.add(products.computeIfAbsent(value, v -> productScale(v, operand)));
        }
        DType type = dtype(n.input(0));
        edit.replace(
                n,
                Node.of(
                        n.name(),
                        "QuantizedProduct",
                        Node.OCTET_DOMAIN,
                        inputs,
                        n.outputs(),
                        Attribute.of("format", operand.type().dtype().name()),
                        Attribute.of("type", (type == null ? DType.F32 : type).name())));
    }

    /** The constant scale of an operand: from its statistics, or of what a Softmax makes, which lies between 0 and 1. */
    private String productScale(String value, OperandSpec operand) {
        ActivationScale chosen = activations.get(value);
        Node producer = edit.producer(value);
        if (chosen == null && (producer == null || !producer.is("Softmax"))) {
            throw new IllegalArgumentException("no scale for '" + value + "'");
        }
        float scale = chosen == null ? 1 / operand.type().maxValue() : chosen.scale();
        DType type = dtype(value);
        String name = edit.freshName(value + ".input_scale");
        edit.putInitializer(
                Initializer.of(ActivationScales.stored(scale, name, type == null ? DType.F32 : type, arena)));
        return name;
    }

    private static Node node(Map<String, Node> nodes, Decision d) {
        Node n = nodes.get(d.node());
        if (n == null) {
            throw new IllegalArgumentException("the plan names a node that is not in the graph: " + d.node());
        }
        return n;
    }

    /** Quantises value {@code x} by its range in each run. */
    private Activation quantizeAtRunTime(String x, Node first) {
        String codes = edit.freshName(x + "_int8");
        Activation a = new Activation(codes, edit.freshName(codes + "_scale"), edit.freshName(codes + "_zero"));
        edit.insertBefore(
                first,
                Node.of(
                        codes,
                        "QuantizeDynamic",
                        Node.OCTET_DOMAIN,
                        List.of(x),
                        List.of(a.codes(), a.scale(), a.zero()),
                        Attribute.of("type", computedIn(first).name())));
        return a;
    }

    /** Quantises value {@code x} for all of {@code linears}, in the normalisation that makes it where that is converted. */
    private Activation quantizeInput(
            String x, OperandSpec operand, List<Node> linears, Decision.@Nullable Converted norm) {
        ActivationScale chosen = activations.get(x);
        if (chosen == null) {
            throw new IllegalArgumentException("no scale for '" + x + "'");
        }
        Node first = linears.getFirst();
        DType scaleType = computedIn(first);
        String scale = edit.freshName(stem(first) + ".input_scale");
        edit.putInitializer(Initializer.of(ActivationScales.stored(chosen.scale(), scale, scaleType, arena)));
        String codes = edit.freshName(x + (operand.type().isInteger() ? "_int8" : "_fp8"));
        String zero = operand.type().hasZeroPoint() ? zeroPoint(stem(first), chosen) : "";
        Attribute format = Attribute.of("format", operand.type().dtype().name());
        Node producer = edit.producer(x);
        if (norm == null || producer == null) {
            edit.insertBefore(
                    first,
                    Node.of(codes, "Quantize", Node.OCTET_DOMAIN, List.of(x, scale, zero), List.of(codes), format));
            return new Activation(codes, scale, zero);
        }
        boolean layerNorm = producer.isOctet("LayerNormalization");
        boolean wantedInFull = edit.isOutput(x) || edit.consumers(x).size() > linears.size();
        List<String> inputs = new ArrayList<>(List.of(producer.input(0), producer.input(1)));
        if (layerNorm) {
            inputs.add(producer.input(2));
        }
        inputs.stream().skip(1).forEach(c -> widen(c, scaleType));
        inputs.add(scale);
        inputs.add(zero);
        Node quantizing = Node.of(
                        producer.name(),
                        layerNorm ? "QuantizingLayerNorm" : "QuantizingRmsNorm",
                        Node.OCTET_DOMAIN,
                        inputs,
                        List.of(codes, wantedInFull ? x : ""))
                .withAttributes(producer.attributes())
                .with(format);
        edit.replace(producer, quantizing);
        return new Activation(codes, scale, zero);
    }

    /** The code of zero as a constant. */
    private String zeroPoint(String stem, ActivationScale chosen) {
        String name = edit.freshName(stem + ".input_zero_point");
        Tensor zero = Tensor.allocate(arena, new TensorSpec(name, DType.I8, Shape.SCALAR));
        zero.bytes().set(ValueLayout.JAVA_BYTE, 0, (byte) chosen.zeroPoint());
        edit.putInitializer(Initializer.of(zero));
        return name;
    }

    private void rewriteLinear(Node n, Recipe recipe, Optional<Activation> input) {
        boolean transB = n.intAttribute("transB", 0) == 1;
        Weight w = weight(n, recipe);
        widen(n.input(2), computedIn(n));
        Node quantized = Node.of(
                n.name(),
                "QuantizedLinear",
                Node.OCTET_DOMAIN,
                List.of(
                        input.map(Activation::codes).orElse(n.input(0)),
                        w.codes(),
                        w.scale(),
                        input.map(Activation::scale).orElse(""),
                        n.input(2),
                        input.map(Activation::zero).orElse(""),
                        w.zeros()),
                n.outputs(),
                Attribute.of("transB", transB ? 1 : 0),
                Attribute.of("format", w.quantized().type().dtype().name()),
                Attribute.of("bits", w.quantized().type().bits()),
                Attribute.of("type", computedIn(n).name()));
        edit.replace(n, quantized);
        boolean products = integerProducts.contains(n.id());
        layers.add(LayerResults.of(n, w.codes(), w.original(), w.quantized(), products));
    }

    /** The codes and scales of the Linear's weight; made once for a weight that several Linears share. */
    private Weight weight(Node n, Recipe recipe) {
        String name = n.input(1);
        Form form = new Form(name, recipe.weight(), recipe.isDynamic());
        Weight known = weights.get(form);
        if (known != null) {
            return known;
        }
        Tensor original = Objects.requireNonNull(originals.computeIfAbsent(name, this::constant));
        OperandSpec spec = recipe.weight();
        if (!recipe.isDynamic()) { // products with ranges found at run time are of F32, and so are their scales
            spec = spec.scaledBy(new ScaleRule.AmaxRule(), computedIn(n));
        }
        QuantizedTensor q = quantizer.quantize(n, original, spec);
        boolean replaced = weights.keySet().stream().noneMatch(f -> f.name().equals(name))
                && edit.consumers(name).stream().allMatch(this::isConverted)
                && !edit.isOutput(name);
        String codes = replaced ? name : edit.freshName(name + (spec.type().isInteger() ? "_int8" : "_fp8"));
        String scale = edit.freshName(stem(n) + ".weight_scale");
        edit.putInitializer(Initializer.of(q.codesTensor().withName(codes)));
        edit.putInitializer(Initializer.of(q.scale().withName(scale)));
        String zeros = "";
        if (q.zeroPoints() != null) {
            zeros = edit.freshName(stem(n) + ".weight_zero_point");
            edit.putInitializer(Initializer.of(q.zeroPoints().withName(zeros)));
        }
        Weight made = new Weight(codes, scale, zeros, q, original);
        weights.put(form, made);
        return made;
    }

    /** The type of the Linear's input; its constants may be narrower. */
    private DType computedIn(Node linear) {
        ValueType.TensorType x = types.type(linear.input(0));
        return x == null || x.dtype() == null ? constant(linear.input(1)).dtype() : x.dtype();
    }

    /** Brings a bias, or a constant of a normalisation, to the type its node computes in. These are vectors. */
    private void widen(String name, DType to) {
        Initializer i = edit.initializer(name);
        Tensor t = i == null ? null : i.tensor().orElse(null);
        if (t == null || t.dtype() == to || !t.dtype().isFloat()) {
            return;
        }
        Tensor wide = Tensor.allocate(arena, new TensorSpec(name, to, t.shape()));
        Floats.convert(t.dtype(), t.bytes(), to, wide.bytes(), t.shape().elementCount());
        edit.putInitializer(Initializer.of(wide));
    }

    private boolean isConverted(Node n) {
        return n.isOctet("QuantizedLinear")
                || plan.converted(LayerKind.LINEAR).stream()
                        .anyMatch(d -> d.node().equals(n.id()));
    }

    private Tensor constant(String name) {
        Initializer i = edit.initializer(name);
        return (i == null ? Optional.<Tensor>empty() : i.tensor())
                .orElseThrow(() -> new IllegalArgumentException("'" + name + "' is not a constant tensor"));
    }

    /** {@code a.b.query.weight -> a.b.query}; a weight of another name stays as it is. */
    private static String stem(Node linear) {
        String w = linear.input(1);
        return w.endsWith(".weight") ? w.substring(0, w.length() - ".weight".length()) : w;
    }
}
