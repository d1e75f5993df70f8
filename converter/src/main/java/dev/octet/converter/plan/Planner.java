package dev.octet.converter.plan;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Decides about every candidate layer of a canonical graph. Looks at weights once (for NaN and zero), changes nothing.
 *
 * <p>Linears are decided first, normalisations after them: one is converted only where a quantised Linear reads its output.
 */
public final class Planner {
    private final Graph graph;
    private final GraphEdit lookup;
    private final Recipe recipe;
    private final List<Pattern> keep;
    private final Map<LayerKind, QuantType> others;
    private final Set<Node> attention;
    private final Set<Pattern> matched = new HashSet<>();

    private static final Set<DType> TABLES = Set.of(DType.F32, DType.F16, DType.BF16);

    /** Tables of fewer rows stay: nothing is gained. */
    private static final int LEAST_ROWS = 16;

    private Planner(Graph graph, Recipe recipe, List<Pattern> keep, Map<LayerKind, QuantType> others) {
        this.graph = graph;
        this.lookup = GraphEdit.of(graph);
        this.recipe = recipe;
        this.keep = keep;
        this.others = Map.copyOf(others);
        this.attention = others.containsKey(LayerKind.ATTENTION) ? AttentionProducts.of(lookup) : Set.of();
        others.forEach((kind, type) -> {
            if (!kind.forms().containsKey(type)) {
                throw new IllegalArgumentException(kind + " has no form in " + type);
            }
        });
    }

    /**
     * Makes the plan.
     *
     * @param graph canonical: Linears and normalisations in Octet's domain
     * @param keep layers whose node id or weight name one of these finds a match in stay as they are
     * @throws InvalidOptionException when a pattern matches no candidate layer
     */
    public static Plan plan(Graph graph, Recipe recipe, List<Pattern> keep) {
        return plan(graph, recipe, keep, Map.of());
    }

    /**
     * The same with other layers than Linears.
     *
     * @param others kinds that are candidates, too, each with one of its {@linkplain LayerKind#forms forms}
     */
    public static Plan plan(Graph graph, Recipe recipe, List<Pattern> keep, Map<LayerKind, QuantType> others) {
        return new Planner(graph, recipe, keep, others).plan();
    }

    private Plan plan() {
        IdentityHashMap<Node, Decision> decisions = new IdentityHashMap<>();
        Set<String> linearInputs = new HashSet<>();
        for (Node n : graph.nodes()) {
            if (n.isOctet("Linear")) {
                Decision d = decideLinear(n);
                decisions.put(n, d);
                if (d instanceof Decision.Converted) {
                    linearInputs.add(n.input(0));
                }
            }
        }
        List<Decision> ordered = new ArrayList<>();
        Map<String, Integer> constants = BodyLayers.constants(graph);
        for (Node n : graph.nodes()) {
            if (!n.subgraphs().isEmpty()) {
                ordered.addAll(decideBodies(n, BodyLayers.of(n, constants)));
                continue;
            }
            Decision d = decisions.get(n);
            if (d == null) {
                d = decideOther(n, linearInputs).orElse(null);
            }
            if (d != null) {
                ordered.add(d);
            }
        }
        for (Pattern p : keep) {
            if (!matched.contains(p)) {
                throw new InvalidOptionException(
                        "pattern '" + p + "' matches no layer",
                        "option keep, " + ordered.size() + " layers",
                        hint(ordered));
            }
        }
        return new Plan(recipe, ordered, recipes(ordered));
    }

    /** The recipes of converted layers of other kinds. */
    private Map<String, Recipe> recipes(List<Decision> decisions) {
        Map<String, Recipe> recipes = new LinkedHashMap<>();
        for (Decision d : decisions) {
            QuantType type = d instanceof Decision.Converted ? others.get(d.kind()) : null;
            Recipe own = type == null ? null : d.kind().forms().get(type);
            if (own != null) {
                recipes.put(d.node(), own);
            }
        }
        return recipes;
    }

    private static String hint(List<Decision> layers) {
        return layers.stream()
                .filter(Decision.Converted.class::isInstance)
                .map(Decision.Converted.class::cast)
                .filter(d -> !d.weight().isEmpty())
                .findFirst()
                .map(d -> "patterns are searched in node ids, such as '" + d.node() + "', and weight names, such as '"
                        + d.weight() + "'")
                .orElse("the model has no layers to keep; leave the pattern out");
    }

    private Optional<String> keptByPattern(String... names) {
        String reason = null;
        for (Pattern p : keep) {
            for (String name : names) {
                if (p.matcher(name).find()) {
                    matched.add(p);
                    reason = "asked to keep it: '" + p + "'";
                }
            }
        }
        return Optional.ofNullable(reason);
    }

    private Decision decideLinear(Node n) {
        String w = n.input(1);
        Optional<String> router = n.intAttribute(Node.IN_F32, 0) == 0
                ? Optional.empty()
                : Optional.of("it is a router, which chooses experts in F32");
        Optional<String> refusal = keptByPattern(n.id(), w).or(() -> router).or(() -> weightRefusal(n, w));
        if (refusal.isPresent()) {
            return new Decision.Kept(n.id(), LayerKind.LINEAR, refusal.get());
        }
        OperandSpec input = recipe.input();
        String note = (input == null ? "weight to " : "weight and input to ")
                + recipe.weight().type().family();
        return new Decision.Converted(n.id(), LayerKind.LINEAR, n.input(0), n.output(), w, note);
    }

    /** Why this weight cannot or should not be quantised; empty when it can. */
    private Optional<String> weightRefusal(Node n, String w) {
        Tensor t = constant(w);
        return t == null ? Optional.of("its weight '" + w + "' is not a constant tensor") : typeRefusal(n, t);
    }

    private Optional<String> typeRefusal(Node n, Tensor t) {
        return switch (t.dtype()) {
            case F32, F16, BF16 -> valuesRefusal(n, t);
            case BOOL, F4_E2M1, F6_E2M3, F6_E3M2, U2, I2, U4, I4, U8, I8, F8_E5M2, F8_E4M3FN, F8_E8M0, F8_E4M3FNUZ ->
                Optional.of("its weight is " + t.dtype() + " already");
            case F8_E5M2FNUZ, I16, U16, I32, U32, C64, F64, I64, U64, C128, STRING ->
                Optional.of("its weight is " + t.dtype() + "; F32, F16 and BF16 can be quantised");
        };
    }

    private Optional<String> valuesRefusal(Node n, Tensor w) {
        for (Node user : lookup.consumers(n.input(1))) {
            if (user.is("Gather") && user.input(0).equals(n.input(1))) {
                return Optional.of(
                        "its weight is tied to the embedding " + user.id() + ", which stays in " + w.dtype());
            }
        }
        if (w.shape().elementCount() == 0) {
            return Optional.of("its weight is empty " + w.shape());
        }
        float amax = ElementCast.best().amax(w.dtype(), w.bytes());
        if (!Float.isFinite(amax)) {
            return Optional.of("its weight has " + (Float.isNaN(amax) ? "NaN" : "infinite") + " elements");
        }
        if (amax == 0) {
            return Optional.of("its weight is all zero, so it has no scale");
        }
        if (!n.isOctet("Linear")) {
            return Optional.empty();
        }
        long in = w.shape().dim(n.intAttribute("transB", 0) == 1 ? 1 : 0);
        return recipe.weight().granularity() instanceof Granularity.PerGroup(int _, int size) && in % size != 0
                ? Optional.of("its " + in + " inputs do not divide into groups of " + size)
                : Optional.empty();
    }

    private Optional<Decision> decideOther(Node n, Set<String> linearInputs) {
        if (n.isOctet("LayerNormalization")) {
            return Optional.of(decideNorm(n, LayerKind.LAYER_NORM, linearInputs));
        }
        if (n.isOctet("RMSNormalization")) {
            return Optional.of(decideNorm(n, LayerKind.RMS_NORM, linearInputs));
        }
        if (others.containsKey(LayerKind.EMBEDDING) && n.is("Gather") && n.intAttribute("axis", 0) == 0) {
            return decideEmbedding(n);
        }
        if (ConvolutionWeights.isConvolution(n)) {
            return Optional.of(decideConvolution(n));
        }
        if (others.containsKey(LayerKind.ATTENTION) && AttentionProducts.isWhole(n)) {
            return Optional.of(wholeAttention(n));
        }
        return attention.contains(n) ? Optional.of(decideProduct(n, linearInputs)) : Optional.empty();
    }

    private Decision decideConvolution(Node n) {
        QuantType type = others.get(LayerKind.CONV);
        Optional<String> refusal = keptByPattern(n.id(), n.input(1));
        refusal = type == null
                ? Optional.of("convolutions stay in floats unless asked for")
                : refusal.or(() -> convolutionRefusal(n, type.isInteger()));
        return refusal.isPresent()
                ? new Decision.Kept(n.id(), LayerKind.CONV, refusal.get())
                : new Decision.Converted(
                        n.id(),
                        LayerKind.CONV,
                        n.input(0),
                        n.output(),
                        n.input(1),
                        type != null && type.isInteger()
                                ? "weight to INT8, one scale per output channel; its input is quantised in each run"
                                : "weight to FP8, one scale per output channel; its input stays as it is");
    }

    private Optional<String> convolutionRefusal(Node n, boolean integers) {
        String w = n.input(1);
        Tensor t = constant(w);
        if (t == null) {
            Node producer = lookup.producer(w);
            Tensor codes = producer != null && producer.is("DequantizeLinear") ? constant(producer.input(0)) : null;
            return Optional.of(
                    codes == null
                            ? "its weight '" + w + "' is not a constant tensor"
                            : "its weight is " + codes.dtype() + " already");
        }
        Optional<String> form = integers ? integerRefusal(n, t) : ConvolutionWeights.refusal(n, t.shape());
        if (form.isPresent()) {
            return form;
        }
        return lookup.consumers(w).size() == 1 && !lookup.isOutput(w)
                ? typeRefusal(n, t)
                : Optional.of("its weight is also read by other nodes");
    }

    /** Why a convolution has no form as {@code ConvInteger}; empty where it has one. */
    private Optional<String> integerRefusal(Node n, Tensor weight) {
        if (n.is("ConvTranspose")) {
            return Optional.of("ONNX has no ConvTranspose of integers");
        }
        if (weight.dtype() != DType.F32) {
            return Optional.of("its weight is " + weight.dtype() + "; ConvInteger's ranges are found in F32");
        }
        return n.hasInput(2) && lookup.initializer(n.input(2)) == null
                ? Optional.of("its bias is not a constant tensor")
                : Optional.empty();
    }

    private @Nullable Tensor constant(String name) {
        Initializer init = lookup.initializer(name);
        return init == null ? null : init.tensor().orElse(null);
    }

    private Decision decideProduct(Node n, Set<String> linearInputs) {
        QuantType type = others.get(LayerKind.ATTENTION);
        Recipe own = type == null ? recipe : LayerKind.ATTENTION.forms().getOrDefault(type, recipe);
        boolean dynamic = own.isDynamic();
        List<String> measured = dynamic
                ? List.of()
                : n.inputs().stream().filter(v -> !isProbability(v)).toList();
        Optional<String> refusal = keptByPattern(n.id());
        if (refusal.isEmpty() && !dynamic) {
            refusal = n.inputs().stream()
                    .flatMap(v -> operandRefusal(v, own, linearInputs.contains(v)).stream())
                    .findFirst();
        }
        return refusal.isPresent()
                ? new Decision.Kept(n.id(), LayerKind.ATTENTION, refusal.get())
                : new Decision.Converted(
                        n.id(),
                        LayerKind.ATTENTION,
                        n.input(0),
                        n.output(),
                        "",
                        measured,
                        dynamic
                                ? "both operands to 8 bits by their ranges in each run"
                                : "both operands to FP8 by calibrated scales");
    }

    private boolean isProbability(String value) {
        Node producer = lookup.producer(value);
        return producer != null && producer.is("Softmax");
    }

    /** Why an operand of a product has no static scale of its own; empty where it has one. */
    private Optional<String> operandRefusal(String value, Recipe own, boolean readByLinear) {
        OperandSpec linear = recipe.input();
        return readByLinear && linear != null && !linear.equals(own.input())
                ? Optional.of("its operand '" + value + "' is quantised for Linears in another way")
                : Optional.empty();
    }

    private Decision wholeAttention(Node n) {
        keptByPattern(n.id());
        return new Decision.Kept(
                n.id(),
                LayerKind.ATTENTION,
                n.domain().isEmpty()
                        ? "both products are in one node; 'octet convert --target onnx' writes them apart"
                        : "both products are in one node of " + n.domain());
    }

    /** Empty where the node gathers from anything but a constant matrix of floats: it is not an embedding. */
    private Optional<Decision> decideEmbedding(Node n) {
        String table = n.input(0);
        Tensor t = constant(table);
        if (t == null || t.shape().rank() != 2 || !TABLES.contains(t.dtype())) {
            return Optional.empty();
        }
        Optional<String> refusal = keptByPattern(n.id(), table).or(() -> tableRefusal(table, t));
        return Optional.of(
                refusal.isPresent()
                        ? new Decision.Kept(n.id(), LayerKind.EMBEDDING, refusal.get())
                        : new Decision.Converted(
                                n.id(),
                                LayerKind.EMBEDDING,
                                n.input(1),
                                n.output(),
                                table,
                                "table to INT8, one scale per row; dequantised after the rows are gathered"));
    }

    private Optional<String> tableRefusal(String table, Tensor t) {
        for (Node user : lookup.consumers(table)) {
            boolean gathers = user.is("Gather") && user.intAttribute("axis", 0) == 0;
            if (!gathers || !user.input(0).equals(table)) {
                return Optional.of("its table is also read by " + user.id() + ", which needs floats");
            }
        }
        if (lookup.isOutput(table)) {
            return Optional.of("its table is an output of the model");
        }
        if (t.shape().dim(0) < LEAST_ROWS || t.shape().dim(1) == 0) {
            return Optional.of("its table is small: " + t.shape());
        }
        return Float.isFinite(ElementCast.best().amax(t.dtype(), t.bytes()))
                ? Optional.empty()
                : Optional.of("its table has NaN or infinite elements");
    }

    /** A node with bodies, and the layers in them. */
    private List<Decision> decideBodies(Node n, List<Decision.Kept> inside) {
        keptByPattern(n.id());
        inside.forEach(k -> keptByPattern(k.node()));
        long linears = inside.stream().filter(k -> k.kind() == LayerKind.LINEAR).count();
        List<Decision> all = new ArrayList<>();
        all.add(new Decision.Kept(
                n.id(),
                LayerKind.CONTROL_FLOW,
                n.opType() + " passes through with its bodies"
                        + (linears > 0 ? ", " + linears + " Linear in them" : "")));
        all.addAll(inside);
        return all;
    }

    private Decision decideNorm(Node n, LayerKind kind, Set<String> linearInputs) {
        String y = n.output();
        String family = recipe.weight().type().family();
        Optional<String> refusal = keptByPattern(n.id(), n.input(1));
        if (refusal.isEmpty() && recipe.input() == null) {
            refusal = Optional.of("recipe " + recipe.name() + " leaves activations as they are");
        }
        if (refusal.isEmpty() && !linearInputs.contains(y)) {
            refusal = Optional.of(
                    lookup.isOutput(y)
                            ? "its output leaves the model: no " + family + " Linear reads it"
                            : "no " + family + " Linear reads its output");
        }
        if (refusal.isPresent()) {
            return new Decision.Kept(n.id(), kind, refusal.get());
        }
        long readers =
                lookup.consumers(y).stream().filter(c -> c.isOctet("Linear")).count();
        return new Decision.Converted(
                n.id(),
                kind,
                n.input(0),
                y,
                "",
                "stays as it is; its output is handed on in " + family + ", quantised once for " + readers
                        + (readers == 1 ? " Linear" : " Linears"));
    }
}
