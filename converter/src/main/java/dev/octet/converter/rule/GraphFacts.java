package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The questions that rules ask about a graph. Sees through {@code Identity}, and through {@code Constant} nodes. Reads only. */
final class GraphFacts {
    /**
     * Two scalars count as equal when they differ by no more than this share: half a unit in the last place of BF16, the coarsest
     * type in which exporters store 1/sqrt(2) and the like.
     */
    static final double TOLERANCE = 0x1p-9;

    /** Copies (Identity, Cast) in a row that a match may contain; exporters write two at most. */
    private static final int MAX_COPIES = 4;

    /** From this IR version on, an initializer that is also a graph input is only a default. */
    private static final long IR_WITH_DEFAULTS = 4;

    private static final Set<DType> SCALAR_TYPES =
            Set.of(DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32);
    private static final Set<DType> WEIGHT_TYPES = Set.of(DType.F32, DType.F16, DType.BF16);

    /**
     * A constant as a consumer sees it.
     *
     * @param name value that holds it: an initializer, or the output of a {@code Constant} node
     */
    record Constant(String name, Tensor tensor) {}

    private final GraphEdit edit;
    private final long irVersion;

    GraphFacts(GraphEdit edit, long irVersion) {
        this.edit = edit;
        this.irVersion = irVersion;
    }

    /** Producer of {@code value}, {@code Identity} nodes skipped, when it is one of ONNX's {@code ops}; null otherwise. */
    @Nullable
    Node producer(String value, String... ops) {
        Node n = edit.producer(bare(value));
        return n != null && isOneOf(n, ops) ? n : null;
    }

    /** Producer of {@code value}, {@code Identity} nodes skipped, of any domain; null for inputs and constants. */
    @Nullable
    Node made(String value) {
        return edit.producer(bare(value));
    }

    /** The whole numbers that a constant has; empty where {@code value} is none. */
    long[] longs(String value) {
        Constant c = constant(value);
        return c == null || c.tensor().dtype() != DType.I64
                ? new long[0]
                : c.tensor().toLongs();
    }

    private static boolean isOneOf(Node n, String... ops) {
        return Arrays.stream(ops).anyMatch(n::is);
    }

    /** {@code value}, or what it is a copy of. */
    String bare(String value) {
        String v = value;
        for (Node n = edit.producer(v); n != null && n.is("Identity"); n = edit.producer(v)) {
            v = n.input(0);
        }
        return v;
    }

    /** {@code value}, or the value that it is a mere change of float type of. */
    String uncast(String value) {
        String v = bare(value);
        for (Node n = edit.producer(v); n != null && isFloatCast(n); n = edit.producer(v)) {
            v = bare(n.input(0));
        }
        return v;
    }

    /** Whether two values are the same number, up to changes of float type. */
    boolean same(String a, String b) {
        return uncast(a).equals(uncast(b));
    }

    private static boolean isFloatCast(Node n) {
        return n.is("Cast")
                && DType.ofOnnxId((int) n.intAttribute("to", 0))
                        .filter(DType::isFloat)
                        .isPresent();
    }

    /**
     * A node that reads a value.
     *
     * @param value what it reads: the value asked for, or a copy or change of float type of it
     */
    record Reader(Node node, String value) {
        /** The other input of a two-input node; null when there is only one input, or both are the value. */
        @Nullable
        String other() {
            return GraphFacts.other(node, value);
        }
    }

    /**
     * The one node that reads {@code value}, {@code Identity} and float {@code Cast} skipped, when it is one of {@code ops} and
     * no value on the way is a graph output; null otherwise.
     */
    @Nullable
    Reader reader(String value, String... ops) {
        String v = value;
        while (edit.hasSingleUse(v)) {
            Node n = edit.consumers(v).getFirst();
            if (isOneOf(n, ops)) {
                return new Reader(n, v);
            }
            if (!isCopy(n)) {
                return null;
            }
            v = n.output();
        }
        return null;
    }

    /** Nodes that read {@code value}, in order. */
    List<Node> consumers(String value) {
        return edit.consumers(value);
    }

    /** The input of a two-input node that is not {@code value}; null when neither is it, or both are. */
    static @Nullable String other(Node n, String value) {
        if (n.inputs().size() != 2 || n.input(0).equals(n.input(1))) {
            return null;
        }
        return n.input(0).equals(value) ? n.input(1) : n.input(1).equals(value) ? n.input(0) : null;
    }

    private static boolean isCopy(Node n) {
        return n.is("Identity") || isFloatCast(n);
    }

    /** The dense constant that {@code value} is, null when it is not one or callers may override it. */
    @Nullable
    Constant constant(String value) {
        String v = bare(value);
        Initializer i = edit.initializer(v);
        if (i != null) {
            return isOverridable(v)
                    ? null
                    : i.tensor().map(t -> new Constant(v, t)).orElse(null);
        }
        Node n = edit.producer(v);
        return n != null && n.is("Constant") && n.attribute("value").orElse(null) instanceof Attribute.OfTensor t
                ? t.value().tensor().map(x -> new Constant(v, x)).orElse(null)
                : null;
    }

    /** Name, type and shape of the dense or coded constant that {@code value} is; null as {@link #constant} is. */
    @Nullable
    TensorSpec matrix(String value) {
        Constant dense = constant(value);
        if (dense != null) {
            return dense.tensor().spec().withName(dense.name());
        }
        String v = bare(value);
        Initializer i = edit.initializer(v);
        return i != null && i.data() instanceof Initializer.Coded && !isOverridable(v)
                ? i.spec().orElse(null)
                : null;
    }

    /** Whether {@code value} is a constant only as long as the caller feeds nothing else. */
    boolean isOverridable(String value) {
        return irVersion >= IR_WITH_DEFAULTS && edit.initializer(bare(value)) != null && edit.isInput(bare(value));
    }

    /** The number that {@code value} is: a constant of one element and any rank, {@code Cast} skipped. */
    OptionalDouble scalar(String value) {
        String v = uncast(value);
        Node n = edit.producer(v);
        if (n != null && n.is("Constant") && n.attribute("value_float").isPresent()) {
            return OptionalDouble.of(n.floatAttribute("value_float", 0));
        }
        Constant c = constant(v);
        if (c == null
                || c.tensor().shape().elementCount() != 1
                || !SCALAR_TYPES.contains(c.tensor().dtype())) {
            return OptionalDouble.empty();
        }
        return OptionalDouble.of(element(c.tensor(), 0));
    }

    /** Whether {@code value} is a constant near {@code wanted}. */
    boolean isScalar(String value, double wanted) {
        OptionalDouble s = scalar(value);
        return s.isPresent() && near(s.getAsDouble(), wanted, TOLERANCE);
    }

    static boolean near(double a, double wanted, double tolerance) {
        return Math.abs(a - wanted) <= tolerance * Math.abs(wanted);
    }

    /** One element of a tensor of numbers that scalars are stored in. */
    static double element(Tensor t, long i) {
        return switch (t.dtype()) {
            case F64 -> t.bytes().get(Tensor.F64_LE, i * 8);
            case F32 -> t.bytes().get(Tensor.F32_LE, i * 4);
            case F16 -> Float.float16ToFloat(t.bytes().get(Tensor.I16_LE, i * 2));
            case BF16 -> Float.intBitsToFloat(t.bytes().get(Tensor.I16_LE, i * 2) << 16);
            case I64 -> t.bytes().get(Tensor.I64_LE, i * 8);
            case I32 -> t.bytes().get(Tensor.I32_LE, i * 4);
            case BOOL,
                    F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    U8,
                    I8,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E8M0,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    I16,
                    U16,
                    U32,
                    C64,
                    U64,
                    C128,
                    STRING -> throw new IllegalArgumentException(t.spec() + " is not a scalar type");
        };
    }

    /** Element type of a value where the graph has it: its recorded type, the constant's, or that of the {@code Cast} making it. */
    @Nullable
    DType dtype(String value) {
        Constant c = constant(value);
        if (c != null) {
            return c.tensor().dtype();
        }
        Node n = edit.producer(bare(value));
        if (n != null && n.is("Cast")) {
            return DType.ofOnnxId((int) n.intAttribute("to", 0)).orElse(null);
        }
        return edit.type(value) instanceof ValueType.TensorType t
                ? t.dtype()
                : edit.type(bare(value)) instanceof ValueType.TensorType t ? t.dtype() : null;
    }

    /** Dimensions of a value where the graph has them. */
    private @Nullable List<Dim> dims(String value) {
        return edit.type(value) instanceof ValueType.TensorType t ? t.dims() : null;
    }

    /** The shape of a value where all of its dimensions are numbers; null otherwise. */
    @Nullable
    Shape shape(String value) {
        Constant c = constant(value);
        List<Dim> dims = c == null ? dims(value) : null;
        if (c != null || dims == null) {
            return c == null ? null : c.tensor().shape();
        }
        long[] sizes = new long[dims.size()];
        for (int i = 0; i < sizes.length; i++) {
            Long size = dims.get(i).size();
            if (size == null) {
                return null;
            }
            sizes[i] = size;
        }
        return Shape.of(sizes);
    }

    /** A name for a new value or constant, {@code base} or something like it; nothing else will get it. */
    String freshName(String base) {
        return edit.freshName(base);
    }

    OptionalInt rank(String value) {
        List<Dim> dims = dims(value);
        return dims == null ? OptionalInt.empty() : OptionalInt.of(dims.size());
    }

    /** Whether {@code axis} surely is the innermost axis of {@code value}. */
    boolean isLastAxis(String value, long axis) {
        OptionalInt rank = rank(value);
        return axis == -1 || (rank.isPresent() && axis == rank.getAsInt() - 1);
    }

    /** Whether a {@code Reduce*} node reduces its input's innermost axis alone; axes may be an attribute or a constant input. */
    boolean reducesLastAxis(Node reduce) {
        List<Long> axes = reduce.intsAttribute("axes").orElse(null);
        if (axes == null && reduce.hasInput(1)) {
            Constant c = constant(reduce.input(1));
            if (c == null || c.tensor().dtype() != DType.I64) {
                return false;
            }
            axes = Arrays.stream(c.tensor().toLongs()).boxed().toList();
        }
        return axes != null && axes.size() == 1 && isLastAxis(reduce.input(0), axes.getFirst());
    }

    /** A float constant of one axis; null when {@code value} is anything else. */
    @Nullable
    Constant vector(String value) {
        Constant c = constant(value);
        return c != null
                        && c.tensor().shape().rank() == 1
                        && WEIGHT_TYPES.contains(c.tensor().dtype())
                ? c
                : null;
    }

    /** Whether Octet computes with weights of this type. */
    static boolean isWeightType(DType dtype) {
        return WEIGHT_TYPES.contains(dtype);
    }

    /**
     * The matched nodes with the {@code Identity} and {@code Cast} nodes between them, the last one staying last.
     *
     * @param matched all nodes of the match, the one that computes the result last
     */
    List<Node> closed(List<Node> matched) {
        Set<Node> inside = new LinkedHashSet<>(matched);
        List<Node> open = new ArrayList<>(matched.subList(0, matched.size() - 1));
        while (!open.isEmpty()) {
            for (Node reader : edit.consumers(open.removeLast().output())) {
                if (isCopy(reader) && leadsInto(reader, inside, MAX_COPIES) && inside.add(reader)) {
                    open.add(reader);
                }
            }
        }
        Node last = matched.getLast();
        inside.remove(last);
        inside.add(last);
        return List.copyOf(inside);
    }

    /** Whether all that is read of a copy is read, perhaps through a few further copies, by {@code inside}. */
    private boolean leadsInto(Node copy, Set<Node> inside, int furtherCopies) {
        return !edit.isOutput(copy.output())
                && edit.consumers(copy.output()).stream()
                        .allMatch(n -> inside.contains(n)
                                || (furtherCopies > 0 && isCopy(n) && leadsInto(n, inside, furtherCopies - 1)));
    }

    /**
     * Why the matched nodes cannot be removed: a value between them is needed elsewhere. Null when they can.
     *
     * @param matched all nodes of the match, the one that computes the result last
     */
    @Nullable
    String leak(List<Node> matched) {
        Set<Node> inside = new HashSet<>(matched);
        for (Node n : matched.subList(0, matched.size() - 1)) {
            for (String value : n.outputs()) {
                String leak = value.isEmpty() ? null : leak(value, inside);
                if (leak != null) {
                    return leak;
                }
            }
        }
        return null;
    }

    private @Nullable String leak(String value, Set<Node> inside) {
        if (edit.isOutput(value)) {
            return "interior value '" + value + "' is a graph output";
        }
        return edit.consumers(value).stream()
                .filter(n -> !inside.contains(n))
                .findFirst()
                .map(n -> "interior value '" + value + "' is also read by '" + n.id() + "'")
                .orElse(null);
    }

    /**
     * An F16 or BF16 tensor widened to F32, exactly; the memory lives as long as the tensor is reachable.
     *
     * @throws IllegalArgumentException for other types
     */
    static Tensor widened(Tensor t, String name) {
        Tensor wide = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.F32, t.shape()));
        MemorySegment out = wide.bytes();
        for (long i = 0, n = t.shape().elementCount(); i < n; i++) {
            out.set(Tensor.F32_LE, i * 4, (float) element(t, i));
        }
        return wide;
    }

    /** The same numbers as one axis. */
    static Tensor flattened(Tensor t, String name) {
        return new Tensor(new TensorSpec(name, t.dtype(), Shape.of(t.shape().elementCount())), t.bytes());
    }
}
