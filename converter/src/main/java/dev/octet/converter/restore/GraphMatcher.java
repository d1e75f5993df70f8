package dev.octet.converter.restore;

import dev.octet.converter.hf.Blueprint;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Walks two graphs side by side from their outputs to their inputs: the one to be restored, and the blueprint of a configuration. Where
 * both compute the same, each constant of the blueprint is matched with one of the file. Sums and products may have their operands in either
 * order. Masks are not walked, nor how heads are moved: the proof is what answers for these.
 */
final class GraphMatcher {
    /** What a constant of the file is to the blueprint. */
    record Binding(Tensor tensor, boolean transposed) {
        private boolean isSame(Binding other) {
            return transposed == other.transposed ? same(tensor, other.tensor) : tensor.isTransposeOf(other.tensor);
        }

        private static boolean same(Tensor a, Tensor b) {
            return a.dtype() == b.dtype()
                    && a.shape().equals(b.shape())
                    && MemorySegment.mismatch(
                                    a.bytes(),
                                    0,
                                    a.spec().byteSize(),
                                    b.bytes(),
                                    0,
                                    b.spec().byteSize())
                            < 0;
        }
    }

    /** The result of a walk. */
    sealed interface Result {}

    /**
     * Both graphs have the same structure.
     *
     * @param bindings by the blueprint's name
     * @param outputs of the file, by the blueprint's name
     */
    record Match(Map<String, Binding> bindings, Map<String, String> outputs) implements Result {}

    /**
     * The graphs differ.
     *
     * @param matched number of nodes that matched before
     */
    record Mismatch(String reason, int matched) implements Result {}

    /** A value of each graph. */
    private record Pair(String file, String twin) {}

    /** Angles of rotary positions; they lead away from what is rotated. */
    private static final Set<String> ANGLES = Set.of("Cos", "Sin");

    private static final Set<String> ROTATION =
            Set.of("Add", "Sub", "Mul", "Neg", "Concat", "Slice", "Split", "Gather", "ScatterElements", "ScatterND");

    /** Largest relative size of half a unit in the last place of a BF16 number. */
    private static final float BF16_ROUNDING = 0x1p-8f;

    private final FixedGraph file;
    private final FixedGraph twin;
    private final Blueprint blueprint;
    private final Map<Long, Tensor> stored;
    private final Map<String, Binding> bindings = new LinkedHashMap<>();
    private final Set<Pair> matched = new HashSet<>();
    private final Set<Pair> failed = new HashSet<>();
    /** Undo steps for a wrong order of operands, in the order of execution. */
    private final List<Runnable> undo = new ArrayList<>();

    private Mismatch furthest = new Mismatch("the graphs have nothing in common", -1);

    private GraphMatcher(FixedGraph file, Blueprint blueprint, Map<Long, Tensor> stored) {
        this.file = file;
        this.stored = stored;
        this.blueprint = blueprint;
        twin = FixedGraph.of(blueprint.graph());
    }

    /** @param stored constants in the file's narrower type, by the address of the widened elements in the graph */
    static Result of(FixedGraph file, Blueprint blueprint, Map<Long, Tensor> stored) {
        return new GraphMatcher(file, blueprint, stored).walk();
    }

    /** The file's outputs by those of the blueprint: of the same name, else in the same place; empty where there are too few. */
    static Optional<Map<String, String>> outputs(FixedGraph file, Blueprint blueprint) {
        Map<String, String> outputs = new LinkedHashMap<>();
        List<String> names = file.outputs().stream().map(ValueInfo::name).toList();
        List<ValueInfo> all = blueprint.graph().outputs();
        for (int i = 0; i < all.size(); i++) {
            String wanted = all.get(i).name();
            if (!names.contains(wanted) && i >= names.size()) {
                return Optional.empty();
            }
            outputs.put(wanted, names.contains(wanted) ? wanted : names.get(i));
        }
        return Optional.of(outputs);
    }

    private Result walk() {
        Map<String, String> outputs = outputs(file, blueprint).orElse(Map.of());
        if (outputs.isEmpty()) {
            return new Mismatch("it has fewer outputs than " + twin.outputs().size(), 0);
        }
        for (Map.Entry<String, String> output : outputs.entrySet()) {
            if (!match(output.getValue(), output.getKey())) {
                return furthest;
            }
        }
        for (String parameter : blueprint.parameters().keySet()) {
            if (!bindings.containsKey(parameter)) {
                return new Mismatch("it has no constant for " + parameter, matched.size());
            }
        }
        Map<String, Binding> ordered = new LinkedHashMap<>();
        blueprint.parameters().keySet().forEach(p -> ordered.put(p, bindings.get(p)));
        return new Match(ordered, outputs);
    }

    private boolean fail(String reason) {
        if (matched.size() > furthest.matched()) {
            furthest = new Mismatch(reason, matched.size());
        }
        return false;
    }

    private boolean match(String fileValue, String twinValue) {
        Pair pair = new Pair(file.unmoved(fileValue), twin.unmoved(twinValue));
        if (matched.contains(pair)) {
            return true;
        }
        if (failed.contains(pair)) {
            return false;
        }
        if (blueprint.parameters().containsKey(pair.twin())) {
            return bind(fileValue, pair.twin(), false, false);
        }
        Node b = twin.producer(pair.twin());
        Node a = file.producer(pair.file());
        boolean alike = b == null ? input(pair) : nodes(pair, a, b);
        if (alike) {
            matched.add(pair);
            undo.add(() -> matched.remove(pair));
        } else {
            failed.add(pair);
        }
        return alike;
    }

    private boolean input(Pair pair) {
        Tensor wanted = twin.constant(pair.twin());
        if (wanted != null && wanted.dtype() == DType.F32 && wanted.shape().elementCount() == 1) {
            return number(pair, wanted.toFloats()[0]);
        }
        return pair.file().equals(pair.twin())
                || fail("'" + pair.file() + "' is where the input '" + pair.twin() + "' should be");
    }

    /**
     * Matches a number. The blueprint does not round its numbers to their type, because it has no tensors (the scale of Gemma's
     * embeddings).
     */
    private boolean number(Pair pair, float wanted) {
        Tensor t = file.constant(pair.file());
        if (t == null || t.dtype() != DType.F32 || t.shape().elementCount() != 1) {
            return fail("'" + pair.file() + "' is where the number " + wanted + " should be");
        }
        float found = t.toFloats()[0];
        return Math.abs(found - wanted) <= BF16_ROUNDING * Math.abs(wanted)
                || fail("'" + pair.file() + "' is " + found + " where " + wanted + " should be");
    }

    private boolean nodes(Pair pair, @Nullable Node a, Node b) {
        if (b.is("RotaryEmbedding")) {
            String x = unrotated(pair.file(), twin.producer(twin.unmoved(b.input(0))));
            return x == null
                    ? fail(named(a, pair) + " is not a rotation of heads as in " + b.name())
                    : match(x, b.input(0));
        }
        if (a != null && a.is("Where") && b.is("Attention") && file.isNumber(a.input(1), 0)) {
            return match(a.input(2), pair.twin()); // zeroes rows that attend to nothing
        }
        if (a == null || !a.domain().equals(b.domain()) || !a.opType().equals(b.opType())) {
            if (a != null && a.is("Slice") && b.is("Gather") && !isTable(b)) {
                return match(a.input(0), b.input(0)); // either operator selects the first token
            }
            return fail(named(a, pair) + " is where " + blueprint.modelClass() + " has " + b.opType() + " " + b.name());
        }
        return switch (b.opType()) {
            case CanonicalOps.LINEAR -> linear(a, b);
            case CanonicalOps.LAYER_NORM, CanonicalOps.RMS_NORM -> norm(a, b);
            case CanonicalOps.GELU -> gelu(a, b);
            case "Attention" -> attention(a, b);
            case "Gather" -> isTable(b) ? embedding(a, b) : match(a.input(0), b.input(0));
            case "Conv" -> convolution(a, b);
            case "Add", "Mul" -> operands(a, b);
            case "TopK" -> best(pair, a, b);
            case "Softmax", "ReduceSum", "ReduceMax" -> match(a.input(0), b.input(0)); // over the last axis in routers
            case CanonicalOps.EXPERT_ROWS ->
                (a.intAttribute("expert", -1) == b.intAttribute("expert", -1)
                                && a.intAttribute("choices", 0) == b.intAttribute("choices", 0))
                        ? inOrder(a, b)
                        : fail(a.id() + " has the rows of another expert than " + b.name() + ", or of other choices");
            case "Split" ->
                sameSplit(pair, a, b)
                        ? match(a.input(0), b.input(0))
                        : fail(a.id() + " is split otherwise than " + b.name());
            default -> inOrder(a, b);
        };
    }

    /** So many of the largest. */
    private boolean best(Pair pair, Node a, Node b) {
        Tensor mine = file.constant(a.input(1));
        Tensor wanted = twin.constant(b.input(1));
        boolean same = mine != null
                && wanted != null
                && mine.dtype() == DType.I64
                && mine.shape().elementCount() == 1
                && mine.toLongs()[0] == wanted.toLongs()[0]
                && a.outputs().indexOf(pair.file()) == b.outputs().indexOf(pair.twin());
        return same ? match(a.input(0), b.input(0)) : fail(a.id() + " looks for other elements than " + b.name());
    }

    private static boolean sameSplit(Pair pair, Node a, Node b) {
        int mine = a.outputs().indexOf(pair.file());
        int wanted = b.outputs().indexOf(pair.twin());
        return mine == wanted && a.outputs().size() == b.outputs().size();
    }

    private static String named(@Nullable Node n, Pair pair) {
        return n == null ? "'" + pair.file() + "'" : n.opType() + " " + n.id();
    }

    private boolean isTable(Node gather) {
        return blueprint.parameters().containsKey(gather.input(0));
    }

    private boolean linear(Node a, Node b) {
        if (a.hasInput(2) != b.hasInput(2)) {
            return fail(a.id() + " has " + (a.hasInput(2) ? "a" : "no") + " bias, " + b.name() + " has "
                    + (b.hasInput(2) ? "one" : "none"));
        }
        boolean transposed = a.intAttribute("transB", 0) != b.intAttribute("transB", 0);
        return bind(a.input(1), b.input(1), transposed, true)
                && (!b.hasInput(2) || bind(a.input(2), b.input(2), false, true))
                && match(a.input(0), b.input(0));
    }

    private boolean norm(Node a, Node b) {
        float mine = a.floatAttribute("epsilon", 1e-5f);
        float wanted = b.floatAttribute("epsilon", 1e-5f);
        if (mine != wanted) {
            return fail(a.id() + " has epsilon " + mine + ", " + b.name() + " has " + wanted);
        }
        for (int i = 1; i < b.inputs().size(); i++) {
            if (!a.hasInput(i)) {
                return fail(a.id() + " has no " + b.input(i));
            }
            if (twin.constant(b.input(i)) == null && file.constant(a.input(i)) != null) { // 1 + weight, folded
                if (!folded(a.input(i), b.input(i))) {
                    return false;
                }
            } else if (twin.constant(b.input(i)) == null) { // 1 + weight
                if (!match(a.input(i), b.input(i))) {
                    return false;
                }
            } else if (!bind(a.input(i), b.input(i), false, true)) {
                return false;
            }
        }
        return match(a.input(0), b.input(0));
    }

    /** Binds the parameter that a number was added to when the exporter folded the sum: rounded once more, which the proof bears. */
    private boolean folded(String fileValue, String sum) {
        Node add = twin.maker(sum);
        Tensor constant = Objects.requireNonNull(file.constant(fileValue));
        String parameter = add == null || !add.is("Add")
                ? null
                : add.inputs().stream()
                        .map(twin::unmoved)
                        .filter(blueprint.parameters()::containsKey)
                        .findFirst()
                        .orElse(null);
        if (parameter == null
                || !Objects.equals(constant.shape(), blueprint.parameters().get(parameter))) {
            return fail("'" + fileValue + "' is a constant of another shape than " + sum);
        }
        Binding binding = new Binding(NamedConstants.minusOne(constant), false);
        Binding before = bindings.putIfAbsent(parameter, binding);
        if (before == null) {
            undo.add(() -> bindings.remove(parameter));
        }
        return before == null || before.isSame(binding) || fail("two constants would be " + parameter);
    }

    private boolean gelu(Node a, Node b) {
        String mine = a.textAttribute("approximate", "none");
        String wanted = b.textAttribute("approximate", "none");
        return mine.equals(wanted)
                ? match(a.input(0), b.input(0))
                : fail(a.id() + " is Gelu by " + mine + ", the configuration says " + wanted);
    }

    private boolean attention(Node a, Node b) {
        Heads heads = Heads.of(file, a);
        if (heads == null) {
            return fail("the heads of " + a.id() + " are not known");
        }
        long wanted = b.intAttribute("q_num_heads", 0);
        long wantedKeys = b.intAttribute("kv_num_heads", 0);
        if (heads.heads() != wanted || (heads.keyHeads() != wantedKeys && heads.keyHeads() != wanted)) {
            return fail(a.id() + " has " + heads.heads() + " heads of q and " + heads.keyHeads()
                    + " of k, the configuration says " + wanted + " and " + wantedKeys);
        }
        double scale = b.floatAttribute("scale", 0);
        if (Math.abs(heads.scale() - scale) > 1e-5 * scale) {
            return fail(a.id() + " scales by " + heads.scale() + ", the configuration says " + scale);
        }
        return match(a.input(0), b.input(0))
                && match(a.input(1), b.input(1))
                && match(a.input(2), b.input(2))
                && biases(a, b);
    }

    /**
     * Binds parameters that masks are computed from, as biases of positions are: the only constant of their shape behind the file's mask. A mask with several
     * is walked: DeBERTa computes it from q and k.
     */
    private boolean biases(Node a, Node b) {
        List<Tensor> all = b.hasInput(3) ? twin.floatsBehind(b.input(3), Long.MAX_VALUE) : List.of();
        List<Tensor> parameters = all.stream()
                .filter(t -> blueprint.parameters().containsKey(t.name()))
                .toList();
        if (parameters.size() > 1) {
            return a.hasInput(3) ? match(a.input(3), b.input(3)) : fail(a.id() + " has no mask, " + b.name() + " has");
        }
        for (Tensor placeholder : parameters) {
            Shape wanted = Objects.requireNonNull(blueprint.parameters().get(placeholder.name()));
            List<Tensor> found = (a.hasInput(3)
                            ? file.floatsBehind(a.input(3), wanted.elementCount())
                            : List.<Tensor>of())
                    .stream().filter(t -> t.shape().equals(wanted)).toList();
            if (found.size() != 1) {
                return fail(a.id() + " has " + found.size() + " biases of shape " + wanted + ", " + b.name() + " has "
                        + placeholder.name());
            }
            if (!bind(found.getFirst().name(), placeholder.name(), false, true)) {
                return false;
            }
        }
        return true;
    }

    private boolean embedding(Node a, Node b) {
        FixedGraph.Index mine = file.index(a.input(1));
        FixedGraph.Index wanted =
                twin.producer(twin.unmoved(b.input(1))) == null ? twin.index(b.input(1)) : FixedGraph.Index.POSITIONS;
        boolean possible = mine == wanted || (mine == FixedGraph.Index.OTHER && wanted == FixedGraph.Index.POSITIONS);
        return possible
                ? bind(a.input(0), b.input(0), false, false)
                : fail(a.id() + " looks up " + mine + " where " + b.name() + " looks up " + wanted);
    }

    private boolean convolution(Node a, Node b) {
        if (!a.intsAttribute("strides").equals(b.intsAttribute("strides"))
                || a.intAttribute("group", 1) != b.intAttribute("group", 1)) {
            return fail(a.id() + " has other strides or groups than " + b.name());
        }
        return a.hasInput(2) == b.hasInput(2)
                ? bind(a.input(1), twin.unmoved(b.input(1)), false, true)
                        && (!b.hasInput(2) || bind(a.input(2), twin.unmoved(b.input(2)), false, true))
                        && match(a.input(0), b.input(0))
                : fail(a.id() + " and " + b.name() + " have not both a bias");
    }

    private boolean inOrder(Node a, Node b) {
        if (a.inputs().size() != b.inputs().size()) {
            return fail(a.id() + " has " + a.inputs().size() + " operands, " + b.name() + " has "
                    + b.inputs().size());
        }
        for (int i = 0; i < b.inputs().size(); i++) {
            if (!match(a.input(i), b.input(i))) {
                return false;
            }
        }
        return true;
    }

    /** In one order or the other; the operand that is not a Linear first, which is the way along the residual and keeps the stack low. */
    private boolean operands(Node a, Node b) {
        Node maker = twin.maker(b.input(0));
        int first = maker != null && maker.isOctet(CanonicalOps.LINEAR) ? 1 : 0;
        for (int other = 0; other < 2; other++) {
            int before = undo.size();
            if (match(a.input(first ^ other), b.input(first))
                    && match(a.input(1 - first ^ other), b.input(1 - first))) {
                return true;
            }
            while (undo.size() > before) {
                undo.removeLast().run();
            }
        }
        return false;
    }

    /**
     * What a rotation of heads by position was applied to; null when {@code value} is none.
     *
     * @param source what gives it in the blueprint; null for an input
     */
    private @Nullable String unrotated(String value, @Nullable Node source) {
        Node n = file.maker(value);
        if (n != null && n.is("RotaryEmbedding")) {
            return n.input(0);
        }
        Set<String> found = new HashSet<>();
        collect(file.unmoved(value), source, found, new HashSet<>());
        return found.size() == 1 ? found.iterator().next() : null;
    }

    private void collect(String value, @Nullable Node source, Set<String> found, Set<String> seen) {
        String v = file.unmoved(value);
        Node n = file.producer(v);
        if (!seen.add(v) || n == null || (n.domain().isEmpty() && ANGLES.contains(n.opType()))) {
            return;
        }
        if (!n.domain().isEmpty() || !ROTATION.contains(n.opType()) || isLike(n, source)) {
            found.add(v);
            return;
        }
        n.inputs().stream().filter(i -> !i.isEmpty()).forEach(i -> collect(i, source, found, seen));
    }

    /** Whether a node is no part of a rotation but what the blueprint has before it: q, k and v being parted, or heads being scaled. */
    private boolean isLike(Node n, @Nullable Node source) {
        if (source == null || !n.opType().equals(source.opType())) {
            return false;
        }
        return switch (n.opType()) {
            case "Split" -> n.outputs().size() == source.outputs().size();
            case "Mul" ->
                source.inputs().stream()
                        .map(i -> blueprint.parameters().get(twin.unmoved(i)))
                        .filter(Objects::nonNull)
                        .anyMatch(shape -> n.inputs().stream()
                                .map(file::constant)
                                .filter(Objects::nonNull)
                                .anyMatch(t -> t.shape().equals(shape)));
            default -> false;
        };
    }

    private boolean bind(String fileValue, String parameter, boolean transposed, boolean exactly) {
        Tensor constant = file.constant(fileValue);
        Tensor tensor = constant == null && !exactly ? file.rows(fileValue) : constant;
        if (tensor == null) {
            return fail("'" + fileValue + "' is not a constant, " + parameter + " is one");
        }
        Shape wanted = blueprint.parameters().get(parameter);
        if (wanted == null) {
            return fail(parameter + " is not a parameter");
        }
        Binding binding = new Binding(stored.getOrDefault(tensor.bytes().address(), tensor), transposed);
        Shape shape = tensor.shape();
        boolean fits = (transposed && shape.rank() == 2)
                ? Shape.of(shape.dim(1), shape.dim(0)).equals(wanted)
                : shape.equals(wanted) || (!exactly && repeats(tensor, wanted));
        if (!fits) {
            return fail("'" + tensor.name() + "' has shape " + shape + (transposed ? " transposed" : "") + ", "
                    + parameter + " has " + wanted);
        }
        Binding before = bindings.putIfAbsent(parameter, binding);
        if (before == null) {
            undo.add(() -> bindings.remove(parameter));
            return true;
        }
        return before.isSame(binding)
                || fail("'" + before.tensor().name() + "' and '" + tensor.name() + "' differ, both would be "
                        + parameter);
    }

    /** Whether the elements repeat a tensor of shape {@code wanted} once or several times, as exporters write an expanded token. */
    private static boolean repeats(Tensor tensor, Shape wanted) {
        long once = wanted.elementCount();
        long all = tensor.shape().elementCount();
        if (once == 0 || all == 0 || all % once != 0 || tensor.dtype().bits() % 8 != 0) {
            return false;
        }
        long bytes = once * tensor.dtype().bits() / 8;
        for (long i = 1; i < all / once; i++) {
            if (MemorySegment.mismatch(tensor.bytes(), 0, bytes, tensor.bytes(), i * bytes, (i + 1) * bytes) >= 0) {
                return false;
            }
        }
        return true;
    }
}
