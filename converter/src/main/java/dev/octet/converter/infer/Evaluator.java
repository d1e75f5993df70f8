package dev.octet.converter.infer;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Computes the operators that exporters write shape arithmetic and attention masks with, on small values.
 *
 * <p>Moving operators work on every type and carry unknown elements along. Computing ones work on integers and truth (with
 * ONNX's semantics: division truncates, overflow wraps) and, for F32 and F64, only where IEEE 754 prescribes the last bit
 * (add, subtract, multiply, divide, square root, rounding, comparison), so a folded constant is the very number a runtime
 * would have computed. Doubtful cases (division by zero, a float beyond an integer's range, a wrong shape) are
 * left to the runtime: nothing is known of the result.
 */
final class Evaluator {
    /** Computes the outputs of one operator from inputs that are all known at least in part; null when it cannot. */
    @FunctionalInterface
    private interface Rule {
        @Nullable
        List<KnownValue> apply(Node node, List<@Nullable KnownValue> in);
    }

    /** The same for operators with one output and a first input. */
    @FunctionalInterface
    private interface UnaryRule {
        @Nullable
        KnownValue apply(Node node, KnownValue x, List<@Nullable KnownValue> in);
    }

    private static final Map<String, Rule> RULES = Map.ofEntries(
            Map.entry("Identity", one((n, x, in) -> x)),
            Map.entry(
                    "Reshape",
                    one((n, x, in) -> Movement.reshape(x, n.intAttribute("allowzero", 0) != 0, integers(in, 1)))),
            Map.entry("Flatten", one((n, x, in) -> Movement.flatten(x, n.intAttribute("axis", 1)))),
            Map.entry("Squeeze", one((n, x, in) -> Movement.squeeze(x, axes(n, in)))),
            Map.entry("Unsqueeze", one((n, x, in) -> Movement.unsqueeze(x, axes(n, in)))),
            Map.entry(
                    "Transpose",
                    one((n, x, in) ->
                            Movement.transpose(x, n.intsAttribute("perm").orElse(null)))),
            Map.entry("Gather", one((n, x, in) -> Movement.gather(x, at(in, 1), n.intAttribute("axis", 0)))),
            Map.entry("Slice", one(Evaluator::slice)),
            Map.entry("Concat", Evaluator::concat),
            Map.entry("Split", Evaluator::split),
            Map.entry("Expand", one((n, x, in) -> Movement.expand(x, integers(in, 1)))),
            Map.entry("Tile", one((n, x, in) -> Movement.tile(x, integers(in, 1)))),
            Map.entry(
                    "Trilu",
                    one((n, x, in) -> Movement.trilu(
                            x, n.intAttribute("upper", 1) != 0, in.size() < 2 ? new long[] {0} : integers(in, 1)))),
            Map.entry("Where", one((n, c, in) -> Movement.where(c, at(in, 1), at(in, 2)))),
            Map.entry("ConstantOfShape", one((n, x, in) -> constantOfShape(n, x))),
            Map.entry("Range", one((n, x, in) -> Arithmetic.range(x, at(in, 1), at(in, 2)))),
            Map.entry("NonZero", one((n, x, in) -> Movement.nonZero(x))),
            Map.entry("Size", one((n, x, in) -> KnownValue.of(DType.I64, Shape.SCALAR, x.size()))),
            Map.entry("Cast", one((n, x, in) -> cast(n, x))),
            Map.entry("CastLike", one((n, x, in) -> castLike(x, at(in, 1)))),
            Map.entry("Add", binary()),
            Map.entry("Sub", binary()),
            Map.entry("Mul", binary()),
            Map.entry("Div", binary()),
            Map.entry("Mod", binary()),
            Map.entry("Min", binary()),
            Map.entry("Max", binary()),
            Map.entry("Equal", binary()),
            Map.entry("Less", binary()),
            Map.entry("LessOrEqual", binary()),
            Map.entry("Greater", binary()),
            Map.entry("GreaterOrEqual", binary()),
            Map.entry("And", binary()),
            Map.entry("Or", binary()),
            Map.entry("Xor", binary()),
            Map.entry("Not", one((n, x, in) -> Arithmetic.unary("Not", x))),
            Map.entry("Neg", one((n, x, in) -> Arithmetic.unary("Neg", x))),
            Map.entry("Abs", one((n, x, in) -> Arithmetic.unary("Abs", x))),
            Map.entry("Floor", one((n, x, in) -> Arithmetic.unary("Floor", x))),
            Map.entry("Ceil", one((n, x, in) -> Arithmetic.unary("Ceil", x))),
            Map.entry("Sqrt", one((n, x, in) -> Arithmetic.unary("Sqrt", x))),
            Map.entry("Reciprocal", one((n, x, in) -> Arithmetic.unary("Reciprocal", x))),
            Map.entry("ReduceProd", one((n, x, in) -> reduce(n, x, in))),
            Map.entry("ReduceSum", one((n, x, in) -> reduce(n, x, in))),
            Map.entry("ReduceMin", one((n, x, in) -> reduce(n, x, in))),
            Map.entry("ReduceMax", one((n, x, in) -> reduce(n, x, in))));

    private Evaluator() {}

    /**
     * The outputs of {@code node}, as far as they are known.
     *
     * @param in by input; null where nothing is known or the input is absent
     * @return one value per output, or an empty list when nothing is known
     */
    static List<KnownValue> evaluate(Node node, List<@Nullable KnownValue> in) {
        Rule rule = node.domain().isEmpty() ? RULES.get(node.opType()) : null;
        if (rule == null || in.isEmpty()) {
            return List.of();
        }
        for (int i = 0; i < in.size(); i++) {
            if (node.hasInput(i) && in.get(i) == null) {
                return List.of();
            }
        }
        List<KnownValue> out = rule.apply(node, in);
        return out == null ? List.of() : out;
    }

    private static Rule one(UnaryRule rule) {
        return (n, in) -> {
            KnownValue x = at(in, 0);
            KnownValue y = x == null ? null : rule.apply(n, x, in);
            return y == null ? null : List.of(y);
        };
    }

    private static Rule binary() {
        return (n, in) -> {
            KnownValue result = at(in, 0);
            // Min and Max take any number of inputs; the others were given exactly two.
            for (int i = 1; i < in.size() && result != null; i++) {
                KnownValue b = at(in, i);
                result = b == null ? null : Arithmetic.binary(n.opType(), n.intAttribute("fmod", 0) != 0, result, b);
            }
            return result == null ? null : List.of(result);
        };
    }

    private static @Nullable KnownValue at(List<@Nullable KnownValue> in, int i) {
        return i < in.size() ? in.get(i) : null;
    }

    /** Integers of input {@code i}; null when absent or not wholly known. */
    private static long @Nullable [] integers(List<@Nullable KnownValue> in, int i) {
        KnownValue v = at(in, i);
        return v == null ? null : v.integers().orElse(null);
    }

    /** The axes, which are an attribute in old opsets and input 1 in new ones; empty when not given; null when not known. */
    private static long @Nullable [] axes(Node node, List<@Nullable KnownValue> in) {
        if (node.attribute("axes").orElse(null) instanceof Attribute.OfInts a) {
            return a.values().stream().mapToLong(Long::longValue).toArray();
        }
        return node.hasInput(1) ? integers(in, 1) : new long[0];
    }

    private static @Nullable KnownValue slice(Node n, KnownValue x, List<@Nullable KnownValue> in) {
        long[] starts = n.hasInput(1) ? integers(in, 1) : ints(n, "starts");
        long[] ends = n.hasInput(2) ? integers(in, 2) : ints(n, "ends");
        if (starts == null || ends == null) {
            return null;
        }
        long[] axes = n.hasInput(3) ? integers(in, 3) : ints(n, "axes");
        long[] steps = n.hasInput(4) ? integers(in, 4) : null;
        if ((n.hasInput(3) && axes == null) || (n.hasInput(4) && steps == null)) {
            return null;
        }
        return Movement.slice(x, starts, ends, axes, steps);
    }

    private static long @Nullable [] ints(Node n, String attribute) {
        return n.intsAttribute(attribute)
                .map(list -> list.stream().mapToLong(Long::longValue).toArray())
                .orElse(null);
    }

    private static @Nullable List<KnownValue> concat(Node n, List<@Nullable KnownValue> in) {
        List<KnownValue> parts = new ArrayList<>();
        for (KnownValue v : in) {
            if (v == null) {
                return null;
            }
            parts.add(v);
        }
        KnownValue whole = Movement.concat(parts, n.intAttribute("axis", 0));
        return whole == null ? null : List.of(whole);
    }

    private static @Nullable List<KnownValue> split(Node n, List<@Nullable KnownValue> in) {
        KnownValue x = at(in, 0);
        long[] sizes = n.hasInput(1) ? integers(in, 1) : ints(n, "split");
        if (x == null || (n.hasInput(1) && sizes == null)) {
            return null;
        }
        return Movement.split(x, n.intAttribute("axis", 0), sizes, n.outputs().size());
    }

    private static @Nullable KnownValue constantOfShape(Node n, KnownValue x) {
        long[] dims = x.integers().orElse(null);
        Shape shape = dims == null ? null : Shapes.small(dims).orElse(null);
        if (shape == null) {
            return null;
        }
        Optional<KnownValue> fill = Optional.of(KnownValue.of(DType.F32, Shape.of(1), 0)); // ONNX's default: 0.0f
        if (n.attribute("value").orElse(null) instanceof Attribute.OfTensor t) {
            fill = t.value().tensor().flatMap(KnownValue::of);
        }
        if (fill.isEmpty() || fill.get().size() != 1) {
            return null;
        }
        long[] elements = new long[(int) shape.elementCount()];
        Arrays.fill(elements, fill.get().raw(0));
        return KnownValue.of(fill.get().dtype(), shape, elements);
    }

    private static @Nullable KnownValue cast(Node n, KnownValue x) {
        DType to = DType.ofOnnxId((int) n.intAttribute("to", 0)).orElse(null);
        return to == null ? null : Arithmetic.cast(x, to);
    }

    private static @Nullable KnownValue castLike(KnownValue x, @Nullable KnownValue like) {
        return like == null ? null : Arithmetic.cast(x, like.dtype());
    }

    private static @Nullable KnownValue reduce(Node n, KnownValue x, List<@Nullable KnownValue> in) {
        long[] axes = axes(n, in);
        if (axes == null) {
            return null;
        }
        if (axes.length == 0 && n.intAttribute("noop_with_empty_axes", 0) != 0) {
            return x;
        }
        return Arithmetic.reduce(n.opType(), x, axes, n.intAttribute("keepdims", 1) != 0);
    }

    /** The dimensions that operator Shape yields of a value with {@code dims}, by its start and end attributes. */
    static KnownValue shapeOf(Node n, List<Dim> dims) {
        long rank = dims.size();
        long start = clamp(n.intAttribute("start", 0), rank);
        long end = Math.max(start, clamp(n.intAttribute("end", rank), rank));
        List<Dim> part = dims.subList((int) start, (int) end);
        return KnownValue.ofDims(DType.I64, Shape.of(part.size()), part);
    }

    private static long clamp(long index, long rank) {
        return Math.clamp(index < 0 ? index + rank : index, 0, rank);
    }
}
