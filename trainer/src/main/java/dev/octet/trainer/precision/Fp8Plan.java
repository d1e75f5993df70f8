package dev.octet.trainer.precision;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What the settings come to for a graph. */
final class Fp8Plan {
    private static final String LINEAR = "Linear";
    private static final String GROUPED = "GroupedLinear";

    private final Map<String, Fp8Layer> layers = new LinkedHashMap<>();
    /** The layers of the Linears of experts that are computed as one, by the node that does. */
    private final Map<String, List<Fp8Layer>> groups = new HashMap<>();

    private final List<KeptLinear> kept = new ArrayList<>();
    private final Set<String> fusedNorms = new HashSet<>();
    private final Set<String> fusedResults = new HashSet<>();

    private final boolean likeHopper;

    private Fp8Plan(boolean likeHopper) {
        this.likeHopper = likeHopper;
    }

    /** Whether products of codes add up as Hopper's FP8 units do. */
    boolean accumulatesLikeHopper() {
        return likeHopper;
    }

    /**
     * The plan for a canonical graph.
     *
     * @throws InvalidOptionException when an override names no layer
     */
    static Fp8Plan of(Graph graph, Fp8Settings settings) {
        Fp8Plan plan = new Fp8Plan(settings.likeHopper());
        List<Node> linears = graph.nodes().stream()
                .flatMap(n -> n.isOctet(GROUPED) ? LinearModule.experts(n).stream() : Stream.of(n))
                .filter(n -> LinearModule.isLinear(n, graph))
                .toList();
        requireMatches(linears, settings);
        Map<List<Object>, String> owners = new HashMap<>();
        for (Node node : graph.nodes()) {
            if (LinearModule.isLinear(node, graph)) {
                plan.add(node, linears, graph, settings, owners);
            } else if (node.isOctet(GROUPED)) {
                plan.addGroup(node, linears, graph, settings, owners);
            } else if (isProduct(node)) {
                plan.keep(node, otherProduct(node, graph));
            }
        }
        if (settings.fusedNorm()) {
            plan.findFusedNorms(graph);
        }
        return plan;
    }

    private static boolean isProduct(Node node) {
        return node.isOctet(LINEAR)
                || node.opType().equals("MatMul")
                || node.opType().equals("Gemm");
    }

    /** Why a product that is not a Linear with a weight is not in FP8. */
    private static String otherProduct(Node node, Graph graph) {
        if (LinearModule.isAdapter(node)) {
            return "belongs to the adapter";
        }
        boolean weights = graph.initializers().containsKey(node.input(0))
                || graph.initializers().containsKey(node.input(1));
        return weights ? "its weight is not the matrix of a Linear" : "multiplies two activations";
    }

    private void keep(Node node, String reason) {
        kept.add(new KeptLinear(node.id(), reason));
    }

    private static void requireMatches(List<Node> linears, Fp8Settings settings) {
        for (LayerOverride o : settings.overrides()) {
            if (linears.stream().noneMatch(n -> o.matches(n.id(), n.input(1)))) {
                throw new InvalidOptionException(
                        "'" + o.layers() + "' is in the name of none of the " + linears.size() + " Linears",
                        "precision.layers",
                        linears.isEmpty()
                                ? "leave the layer out"
                                : "write part of a name, such as '"
                                        + linears.getFirst().id() + "'");
            }
        }
        for (String node : settings.changes().keySet()) {
            if (linears.stream().noneMatch(n -> n.id().equals(node))) {
                throw new InvalidOptionException(
                        "'" + node + "' is none of the " + linears.size() + " Linears",
                        "changes of their operands",
                        "take the changes for this model");
            }
        }
    }

    private void add(
            Node node, List<Node> linears, Graph graph, Fp8Settings settings, Map<List<Object>, String> owners) {
        LayerOverride special = settings.overrides().stream()
                .filter(o -> o.matches(node.id(), node.input(1)))
                .findFirst()
                .orElse(null);
        Optional<String> reason = reasonAgainst(node, linears, graph, settings, special);
        if (reason.isPresent()) {
            keep(node, reason.get());
            return;
        }
        Fp8Layer layer = layer(node, settings, special);
        // an input is quantised once for all that want it in the same way; whose it is does not depend on changes
        List<Object> way = List.of(layer.input(), layer.recipe());
        String owner = owners.computeIfAbsent(way, k -> node.id());
        if (Arrays.stream(Product.values()).anyMatch(layer::isQuantized)
                || !layer.fakeResults().isEmpty()) {
            layers.put(node.id(), layer.withInputOwner(owner));
        } else {
            String none = "recipe " + layer.recipe().name() + " quantises none of its products";
            keep(node, settings.changes().containsKey(node.id()) ? "changed: no operand is quantised" : none);
        }
    }

    /** All experts of a group, or none: one operator computes them. */
    private void addGroup(
            Node node, List<Node> linears, Graph graph, Fp8Settings settings, Map<List<Object>, String> owners) {
        List<Node> experts = LinearModule.experts(node);
        experts.forEach(e -> add(e, linears, graph, settings, owners));
        List<Fp8Layer> group = new ArrayList<>();
        for (Node e : experts) {
            Fp8Layer layer = layers.remove(e.id());
            if (layer != null) {
                group.add(layer);
            }
        }
        if (group.isEmpty()) {
            return;
        }
        Optional<String> reason = reasonAgainst(group, experts);
        if (reason.isPresent()) {
            group.forEach(l -> kept.add(new KeptLinear(l.node(), reason.get())));
            return;
        }
        group.forEach(l -> layers.put(l.node(), l));
        groups.put(node.id(), group);
    }

    /** Why experts of which each could be are not in FP8; empty when they are. */
    private static Optional<String> reasonAgainst(List<Fp8Layer> group, List<Node> experts) {
        Fp8Layer first = group.getFirst();
        if (first.recipe() instanceof TrainingRecipe.Msamp) {
            return Optional.of("MS-AMP's windows of steps are not for experts");
        }
        if (group.stream().anyMatch(l -> !l.fakeResults().isEmpty())) {
            return Optional.of("results of experts are not quantised");
        }
        boolean alike = group.size() == experts.size()
                && group.stream()
                        .allMatch(l -> l.recipe().equals(first.recipe())
                                && l.changes().equals(first.changes())
                                && l.fakeQuantize() == first.fakeQuantize());
        return alike ? Optional.empty() : Optional.of("experts are computed as one, and others are not to be as it is");
    }

    /** Why a Linear is left alone, in the order in which it is asked; empty when it is not. */
    private static Optional<String> reasonAgainst(
            Node node, List<Node> linears, Graph graph, Fp8Settings settings, @Nullable LayerOverride special) {
        if (settings.exemptFirst() && node.id().equals(linears.getFirst().id())) {
            return Optional.of("the first, by exempt_first");
        }
        if (settings.exemptLast() && node.id().equals(linears.getLast().id())) {
            return Optional.of("the last, by exempt_last");
        }
        Shape shape = Optional.ofNullable(graph.initializers().get(node.input(1)))
                .flatMap(Initializer::spec)
                .map(TensorSpec::shape)
                .orElse(Shape.SCALAR);
        if (shape.rank() != 2) {
            return Optional.of("its weight is not a matrix");
        }
        boolean transB = node.intAttribute("transB", 0) != 0;
        long in = shape.dim(transB ? 1 : 0);
        List<Long> columns = node.intsAttribute(LinearModule.COLUMNS).orElse(List.of(shape.dim(transB ? 0 : 1)));
        if (!columns.stream().allMatch(out -> settings.filter().keeps(in, out))) {
            return Optional.of("its size, by filter " + settings.filter().name().toLowerCase(Locale.ROOT));
        }
        return special != null && !special.fp8()
                ? Optional.of(
                        "fp8: false for layers matching '" + special.layers().pattern() + "'")
                : Optional.empty();
    }

    private static Fp8Layer layer(Node node, Fp8Settings settings, @Nullable LayerOverride special) {
        TrainingRecipe recipe = settings.recipe();
        Set<Product> highPrecision = settings.highPrecision();
        boolean fake = settings.fakeQuantize();
        Map<ProductOperand, OperandChange> changes = new TreeMap<>(settings.operands());
        if (special != null) {
            recipe = special.recipe() == null ? recipe : special.recipe();
            highPrecision = special.highPrecision() == null ? highPrecision : special.highPrecision();
            fake = special.fakeQuantize() == null ? fake : special.fakeQuantize();
            changes = new TreeMap<>(special.operands());
        }
        for (Product product : highPrecision) {
            for (ProductOperand operand : ProductOperand.of(product)) {
                changes.put(operand, new OperandChange.Unquantised());
            }
        }
        changes.putAll(settings.changes().getOrDefault(node.id(), Map.of()));
        return new Fp8Layer(
                node.id(),
                node.input(0),
                node.input(1),
                node.id(),
                recipe,
                changes,
                fake,
                settings.fakeResults().getOrDefault(node.id(), Map.of()));
    }

    /** Layers, and why others are none. */
    Fp8Choice choice() {
        return new Fp8Choice(List.copyOf(layers.values()), kept);
    }

    /** The layer of a node; null when that is not in FP8. */
    @Nullable
    Fp8Layer layer(Node node) {
        return layers.get(node.id());
    }

    /** The layers of the experts that a node computes as one; null when they are not in FP8. */
    @Nullable
    List<Fp8Layer> group(Node node) {
        return groups.get(node.id());
    }

    /** Whether a node is a normalisation that hands F32 to the quantisers. */
    boolean isFusedNorm(Node node) {
        return fusedNorms.contains(node.id());
    }

    /** Whether a layer's input is what such a normalisation makes. */
    boolean readsFusedNorm(Fp8Layer layer) {
        return fusedResults.contains(layer.input());
    }

    /** Normalisations whose result only delayed FP8 products read. */
    private void findFusedNorms(Graph graph) {
        Set<String> outputs = graph.outputs().stream().map(ValueInfo::name).collect(Collectors.toSet());
        Map<String, List<Node>> readers = new HashMap<>();
        for (Node n : graph.nodes()) {
            n.uses()
                    .forEach(name -> readers.computeIfAbsent(name, k -> new ArrayList<>())
                            .add(n));
        }
        for (Node norm : graph.nodes()) {
            String result = norm.output(0);
            List<Node> all = readers.getOrDefault(result, List.of());
            boolean isNorm =
                    norm.opType().equals("LayerNormalization") || norm.opType().equals("RMSNormalization");
            if (isNorm
                    && !all.isEmpty()
                    && !outputs.contains(result)
                    && all.stream().allMatch(n -> takesF32(n, result))) {
                fusedNorms.add(norm.id());
                fusedResults.add(result);
            }
        }
    }

    private boolean takesF32(Node reader, String x) {
        Fp8Layer layer = layers.get(reader.id());
        return layer != null && layer.input().equals(x) && layer.recipe().isDelayed();
    }
}
