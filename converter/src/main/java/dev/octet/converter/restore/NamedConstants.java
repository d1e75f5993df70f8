package dev.octet.converter.restore;

import dev.octet.converter.hf.Blueprint;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.converter.rule.ModulePath;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Constants of a file by the names that its exporter kept of the model's parameters, or that were recovered. A module that the model was wrapped in does not count,
 * nor how transformers calls a module in files and in memory ({@code block_sparse_moe}, {@code mlp}).
 */
public final class NamedConstants {
    /** A matrix of an expert: with {@code .weight} behind it as a module's, or without, as a part of one tensor for all. */
    private static final Pattern EXPERT = Pattern.compile("(\\.experts\\.\\d{1,9}\\.)([a-z0-9_]+)\\.weight$");

    /** Parameters that tell what stands before all names. */
    private static final int LOOKED_AT = 64;

    private static final String SINKS = ".sinks";
    private static final String BODY = "model.";
    private static final Pattern LAYER = Pattern.compile("(|.*\\.)layers\\.\\d{1,4}\\..*");

    /**
     * A constant.
     *
     * @param outIn whether the weight of a Linear lies as [out, in]; empty for what is no weight of a Linear
     * @param ofNorm whether it is the factor of a norm as it is
     */
    private record Named(Tensor tensor, Optional<Boolean> outIn, boolean ofNorm) {}

    private final Map<String, Named> all;
    private final FoldedConstants reads;
    private final Map<Long, Tensor> narrow;

    private NamedConstants(Map<String, Named> all, FoldedConstants reads, Map<Long, Tensor> narrow) {
        this.all = all;
        this.reads = reads;
        this.narrow = narrow;
    }

    /**
     * The constants of an imported graph.
     *
     * @param source the graph before import, which has constants that nothing but folded nodes read
     * @param narrow constants in the file's narrower type, by the address of the widened elements in the graph
     */
    public static NamedConstants of(GraphModel source, GraphModel canonical, Map<Long, Tensor> narrow) {
        Graph graph = canonical.graph();
        Map<String, Boolean> lies = linears(graph);
        Map<String, String> norms = norms(graph);
        Map<String, Named> named = new LinkedHashMap<>();
        String wrapper = wrapper(graph);
        for (Initializer i : graph.initializers().values()) {
            Tensor t = i.tensor().orElse(null);
            if (t != null && t.dtype().isFloat()) {
                String own = i.metadata().getOrDefault(Initializer.ORIGINAL_NAME, i.name());
                String norm = norms.get(i.name());
                String name = norm == null || own.endsWith(".weight") ? own : norm + ".weight";
                named.putIfAbsent(
                        key(unwrapped(name, wrapper)),
                        new Named(t, Optional.ofNullable(lies.get(i.name())), norm != null));
            }
        }
        sinks(graph, wrapper, named);
        tables(graph, wrapper, named);
        for (Initializer i : source.graph().initializers().values()) {
            i.tensor()
                    .filter(t -> t.dtype().isFloat() && !graph.initializers().containsKey(i.name()))
                    .ifPresent(t -> named.putIfAbsent(
                            key(unwrapped(i.name(), wrapper)), new Named(t, Optional.empty(), false)));
        }
        return new NamedConstants(named, FoldedConstants.of(graph, n -> key(unwrapped(n, wrapper))), narrow);
    }

    /** Embeddings by the modules that look them up: one that a model is tied to may have kept the name of its output layer alone. */
    private static void tables(Graph graph, String wrapper, Map<String, Named> named) {
        for (Node n : graph.nodes()) {
            Initializer i =
                    n.is("Gather") || n.is("GatherND") ? graph.initializers().get(n.input(0)) : null;
            Tensor t = i == null ? null : i.tensor().orElse(null);
            if (t != null
                    && t.dtype().isFloat()
                    && t.shape().rank() == 2
                    && !ModulePath.moduleOf(n).isEmpty()) {
                named.putIfAbsent(
                        key(unwrapped(ModulePath.moduleOf(n) + ".weight", wrapper)),
                        new Named(t, Optional.empty(), false));
            }
        }
    }

    /** gpt-oss's sinks, which exporters fold into the shape of scores: [1, heads, 1, 1], read in the module of attention. */
    private static void sinks(Graph graph, String wrapper, Map<String, Named> named) {
        for (Node n : graph.nodes()) {
            Initializer i = n.is("Expand") ? graph.initializers().get(n.input(0)) : null;
            Tensor t = i == null ? null : i.tensor().orElse(null);
            String module = ModulePath.moduleOf(n);
            if (t != null && module.endsWith(".self_attn") && t.dtype().isFloat()) {
                Shape shape = t.shape();
                if (shape.rank() == 4 && shape.dim(1) == shape.elementCount()) {
                    TensorSpec spec = new TensorSpec(t.name(), t.dtype(), Shape.of(shape.dim(1)));
                    named.putIfAbsent(
                            key(unwrapped(module + SINKS, wrapper)),
                            new Named(new Tensor(spec, t.bytes()), Optional.empty(), false));
                }
            }
        }
    }

    /** Modules of norms by the constants that they multiply with. */
    private static Map<String, String> norms(Graph graph) {
        Map<String, String> norms = new HashMap<>();
        for (Node n : graph.nodes()) {
            boolean norm = n.isOctet(CanonicalOps.RMS_NORM) || n.isOctet(CanonicalOps.LAYER_NORM);
            if (norm && !ModulePath.moduleOf(n).isEmpty()) {
                norms.put(n.input(1), ModulePath.moduleOf(n));
            }
        }
        return norms;
    }

    /** Parameters that one is added to. */
    private static Set<String> offsets(Graph blueprint) {
        Set<String> offsets = new HashSet<>();
        for (Node n : blueprint.nodes()) {
            if (n.is("Add")) {
                offsets.addAll(n.inputs());
            }
        }
        return offsets;
    }

    /** A constant that an exporter has added one to, as it was before, up to rounding. */
    static Tensor minusOne(Tensor sum) {
        float[] values = sum.toFloats();
        for (int i = 0; i < values.length; i++) {
            values[i] -= 1;
        }
        return Tensor.ofFloats(Arena.ofAuto(), sum.name(), sum.shape(), values);
    }

    private static Map<String, Boolean> linears(Graph graph) {
        Map<String, Boolean> lies = new HashMap<>();
        for (Node n : graph.nodes()) {
            if (n.isOctet(CanonicalOps.LINEAR)) {
                lies.put(n.input(1), n.intAttribute("transB", 0) != 0);
            }
        }
        return lies;
    }

    /** What stands before the layers of a decoder: its body's prefix, perhaps behind that of a module around it. */
    private static String wrapper(Graph graph) {
        return graph.initializers().keySet().stream()
                .map(LAYER::matcher)
                .filter(Matcher::matches)
                .map(m -> m.group(1))
                .filter(p -> p.isEmpty() || p.endsWith(BODY) || !p.contains("coder."))
                .findFirst()
                .orElse(BODY);
    }

    private static String unwrapped(String name, String wrapper) {
        if (name.startsWith(wrapper)) {
            return BODY + name.substring(wrapper.length());
        }
        String around = wrapper.endsWith(BODY) ? wrapper.substring(0, wrapper.length() - BODY.length()) : wrapper;
        return name.startsWith(around) ? name.substring(around.length()) : name;
    }

    private static String key(String name) {
        Matcher expert = EXPERT.matcher(name.replace(".block_sparse_moe.", ".mlp."));
        return expert.replaceFirst(m -> m.group(1)
                + switch (m.group(2)) {
                    case "w1" -> "gate_proj";
                    case "w2" -> "down_proj";
                    case "w3" -> "up_proj";
                    default -> m.group(2);
                });
    }

    /** Shapes by name, Linears as [out, in]. */
    Map<String, Shape> shapes() {
        Map<String, Shape> shapes = new LinkedHashMap<>();
        all.forEach((name, c) -> {
            Shape shape = c.tensor().shape();
            boolean turned = shape.rank() == 2 && !c.outIn().orElse(true);
            shapes.put(name, turned ? Shape.of(shape.dim(1), shape.dim(0)) : shape);
        });
        return shapes;
    }

    /**
     * What the parameters of a blueprint are among the constants.
     *
     * @param bindings by the blueprint's name
     * @param missing parameters that no constant has the name and shape of
     */
    record Bound(Map<String, GraphMatcher.Binding> bindings, List<String> missing) {
        private static final int SHOWN = 3;

        /** Which ones are missing, for messages; empty where names show nothing. */
        String gaps() {
            return bindings.isEmpty() || missing.isEmpty()
                    ? ""
                    : "; no constant is named or shaped as "
                            + missing.stream().limit(SHOWN).collect(Collectors.joining(", "))
                            + (missing.size() > SHOWN ? " and " + (missing.size() - SHOWN) + " others" : "");
        }
    }

    /**
     * Finds a constant for each parameter of a blueprint.
     *
     * @param arena owns what has to be turned
     */
    Bound bindings(Blueprint blueprint, Arena arena) {
        Map<String, Boolean> wanted = linears(blueprint.graph());
        Set<String> offsets = offsets(blueprint.graph());
        Map<String, List<String>> aliases = aliases(blueprint);
        String around = around(blueprint);
        FoldedConstants folded = reads.without(blueprint.parameters().keySet().stream()
                .map(p -> around + key(p))
                .collect(Collectors.toSet()));
        Map<String, GraphMatcher.Binding> found = new LinkedHashMap<>();
        blueprint.wholes().forEach((name, whole) -> cut(name, whole, blueprint, arena, found));
        Map<String, GraphMatcher.Binding> ordered = new LinkedHashMap<>();
        List<String> missing = new ArrayList<>();
        for (Map.Entry<String, Shape> e : blueprint.parameters().entrySet()) {
            String parameter = e.getKey();
            GraphMatcher.Binding binding = found.get(parameter);
            for (String name : aliases.getOrDefault(parameter, List.of(parameter, blueprint.fileName(parameter)))) {
                binding = binding != null
                        ? binding
                        : binding(
                                name,
                                around,
                                e.getValue(),
                                Optional.ofNullable(wanted.get(parameter)),
                                offsets.contains(parameter));
            }
            if (binding == null) {
                binding = folded.find(parameter, e.getValue(), blueprint.graph(), around)
                        .map(t -> new GraphMatcher.Binding(stored(t), false))
                        .orElse(null);
            }
            if (binding == null) {
                missing.add(parameter);
            } else {
                ordered.put(parameter, binding);
            }
        }
        return new Bound(ordered, missing);
    }

    /**
     * What parameters of Linears may be called: their own name, that in files, and those of the modules that read them, where several share one (a tied output layer's
     * weight, its bias and that of the head around it).
     */
    private static Map<String, List<String>> aliases(Blueprint blueprint) {
        Map<String, List<String>> aliases = new HashMap<>();
        for (Node n : blueprint.graph().nodes()) {
            boolean linear = n.isOctet(CanonicalOps.LINEAR);
            for (int i = 0; linear && i < n.inputs().size(); i++) {
                String parameter = n.input(i);
                if (i > 0 && blueprint.parameters().containsKey(parameter)) {
                    aliases.computeIfAbsent(parameter, p -> new ArrayList<>(List.of(p, blueprint.fileName(p))))
                            .add(module(n) + (i == 1 ? ".weight" : ".bias"));
                }
            }
        }
        return aliases;
    }

    /** The module of a blueprint's Linear, whose name is its path. */
    private static String module(Node linear) {
        return linear.name().substring(1).replace('/', '.');
    }

    /** What the file's names have before those of the parameters, with its dot: a module around the model. */
    private String around(Blueprint blueprint) {
        return blueprint.parameters().keySet().stream()
                .limit(LOOKED_AT)
                .map(NamedConstants::key)
                .flatMap(p -> all.keySet().stream()
                        .filter(n -> n.endsWith("." + p))
                        .map(n -> n.substring(0, n.length() - p.length())))
                .collect(Collectors.groupingBy(prefix -> prefix, TreeMap::new, Collectors.counting()))
                .entrySet()
                .stream()
                .max(Map.Entry.comparingByValue())
                .map(Map.Entry::getKey)
                .orElse("");
    }

    private GraphMatcher.@Nullable Binding binding(
            String parameter, String around, Shape wanted, Optional<Boolean> outIn, boolean offset) {
        Named c = find(key(parameter), around);
        if (c == null) {
            return null;
        }
        if (offset && c.ofNorm()) {
            return c.tensor().shape().equals(wanted) ? new GraphMatcher.Binding(minusOne(c.tensor()), false) : null;
        }
        Shape shape = c.tensor().shape();
        Shape turned = shape.rank() == 2 ? Shape.of(shape.dim(1), shape.dim(0)) : shape;
        boolean transposed =
                (c.outIn().isPresent() && outIn.isPresent()) ? !c.outIn().equals(outIn) : !shape.equals(wanted);
        return (transposed ? turned : shape).equals(wanted)
                ? new GraphMatcher.Binding(stored(c.tensor()), transposed)
                : null;
    }

    /** The constant of a name, as it is or in the module around the model, or the only one of this name within another module. */
    private @Nullable Named find(String key, String around) {
        Named own = all.get(key);
        Named c = own == null ? all.get(around + key) : own;
        if (c != null) {
            return c;
        }
        List<String> within =
                all.keySet().stream().filter(n -> n.endsWith("." + key)).toList();
        if (within.size() == 1) {
            return all.get(within.getFirst());
        }
        // equal ones of several layers have become one
        List<Named> sinks = key.endsWith(SINKS)
                ? all.entrySet().stream()
                        .filter(e -> e.getKey().endsWith(SINKS))
                        .map(Map.Entry::getValue)
                        .toList()
                : List.of();
        return sinks.size() == 1 ? sinks.getFirst() : null;
    }

    private Tensor stored(Tensor tensor) {
        return narrow.getOrDefault(tensor.bytes().address(), tensor);
    }

    /** The parts of a tensor that the file has as one, or whose matrices the exporter has transposed. */
    private void cut(
            String name,
            Blueprint.Whole whole,
            Blueprint blueprint,
            Arena arena,
            Map<String, GraphMatcher.Binding> found) {
        Named c = all.get(key(name));
        if (c == null) {
            return;
        }
        Tensor tensor = stored(c.tensor());
        if (!tensor.shape().equals(whole.shape())) {
            tensor = turned(tensor, whole.shape(), arena);
        }
        if (tensor == null) {
            return;
        }
        long at = 0;
        for (String part : whole.parts()) {
            Shape shape = blueprint.parameters().get(part);
            if (shape == null) {
                return;
            }
            TensorSpec spec = new TensorSpec(part, tensor.dtype(), shape);
            found.put(
                    part,
                    new GraphMatcher.Binding(new Tensor(spec, tensor.bytes().asSlice(at, spec.byteSize())), false));
            at += spec.byteSize();
        }
    }

    /** Each matrix transposed; null where that does not make the shape. */
    private static @Nullable Tensor turned(Tensor tensor, Shape wanted, Arena arena) {
        Shape shape = tensor.shape();
        if (shape.rank() != 3
                || tensor.dtype().bits() % 8 != 0
                || !Shape.of(shape.dim(0), shape.dim(2), shape.dim(1)).equals(wanted)) {
            return null;
        }
        Tensor turned = Tensor.allocate(arena, new TensorSpec(tensor.name(), tensor.dtype(), wanted));
        TensorSpec matrix = new TensorSpec(tensor.name(), tensor.dtype(), Shape.of(shape.dim(1), shape.dim(2)));
        for (long e = 0; e < shape.dim(0); e++) {
            long at = e * matrix.byteSize();
            Tensor one = new Tensor(matrix, tensor.bytes().asSlice(at, matrix.byteSize()));
            turned.bytes()
                    .asSlice(at, matrix.byteSize())
                    .copyFrom(one.transposed(arena).bytes());
        }
        return turned;
    }
}
