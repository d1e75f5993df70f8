package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** One graph or function body while it is upgraded: what rules may ask about it and add to it. */
final class UpgradeScope {
    private final Analysis analysis;
    private final Names names;
    private final Set<String> used;
    private final boolean function;
    private final Map<String, Initializer> constants = new LinkedHashMap<>();
    private final List<Node> constantNodes = new ArrayList<>();

    /**
     * @param names all names in use anywhere in the model or function
     * @param used values of this graph that are read
     * @param function whether this is a function body, which cannot hold initializers
     */
    UpgradeScope(Analysis analysis, Names names, Set<String> used, boolean function) {
        this.analysis = analysis;
        this.names = names;
        this.used = used;
        this.function = function;
    }

    Analysis analysis() {
        return analysis;
    }

    /** The rank of a value; -1 when unknown. */
    int rank(String value) {
        var dims = analysis.dims(value);
        return dims == null ? -1 : dims.size();
    }

    @Nullable
    DType dtype(String value) {
        return analysis.dtype(value);
    }

    /** Whether output {@code i} of {@code n} is there and read. */
    boolean isUsed(Node n, int i) {
        return used.contains(n.output(i));
    }

    /** A new value name beginning with {@code base}. */
    String fresh(String base) {
        return names.fresh(base);
    }

    /** A name for a constant that becomes input {@code role} of {@code n}. */
    private String constantName(Node n, String role) {
        return fresh((n.outputs().isEmpty() ? n.id() : n.output(0)) + "_" + role);
    }

    /** A new 1-D I64 constant. */
    String longs(Node n, String role, long... values) {
        return constant(Tensor.ofLongs(Arena.ofAuto(), constantName(n, role), Shape.of(values.length), values));
    }

    /** A new I64 scalar. */
    String scalar(Node n, String role, long value) {
        return constant(Tensor.ofLongs(Arena.ofAuto(), constantName(n, role), Shape.SCALAR, value));
    }

    /** A new F32 scalar. */
    String scalar(Node n, String role, float value) {
        return constant(Tensor.ofFloats(Arena.ofAuto(), constantName(n, role), Shape.SCALAR, value));
    }

    /**
     * A new float scalar of the type of {@code like}, from an attribute, which is always F32; F16 and BF16 round to nearest.
     *
     * @param before receives a CastLike node where the type is not known beforehand
     */
    String scalarLike(Node n, String role, float value, String like, List<Node> before) {
        DType dtype = dtype(like);
        if (dtype == DType.F16 || dtype == DType.F64) {
            Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(constantName(n, role), dtype, Shape.SCALAR));
            if (dtype == DType.F16) {
                t.bytes().set(Tensor.I16_LE, 0, Float.floatToFloat16(value));
            } else {
                t.bytes().set(Tensor.F64_LE, 0, value);
            }
            return constant(t);
        }
        String single = scalar(n, role, value);
        if (dtype == DType.F32) {
            return single;
        }
        String cast = fresh(single + "_cast");
        before.add(Node.of("", "CastLike", List.of(single, like), List.of(cast)));
        return cast;
    }

    private String constant(Tensor t) {
        if (function) {
            constantNodes.add(
                    Node.of("", "Constant", List.of(), List.of(t.name()), Attribute.of("value", Initializer.of(t))));
        } else {
            constants.put(t.name(), Initializer.of(t));
        }
        return t.name();
    }

    /**
     * An attribute of integers as a new 1-D input; null when the node lacks it.
     *
     * @throws MalformedModelException when it does not hold integers
     */
    @Nullable
    String intsInput(Node n, String attribute) {
        Attribute a = n.attributes().get(attribute);
        if (a == null) {
            return null;
        }
        if (a.value() instanceof Attribute.OfInts list) {
            return longs(
                    n,
                    attribute,
                    list.values().stream().mapToLong(Long::longValue).toArray());
        }
        if (function && a.value() instanceof Attribute.Reference r) {
            // The caller's attribute, spelled as a Constant that takes it over.
            String name = constantName(n, attribute);
            constantNodes.add(
                    Node.of("", "Constant", List.of(), List.of(name), new Attribute("value_ints", r, "", Bytes.EMPTY)));
            return name;
        }
        throw malformed(n, "attribute '" + attribute + "' does not hold integers");
    }

    Map<String, Initializer> constants() {
        return constants;
    }

    /** The Constant nodes made since the last call, which a function body needs before the node that reads them. */
    List<Node> drainConstantNodes() {
        List<Node> drained = List.copyOf(constantNodes);
        constantNodes.clear();
        return drained;
    }

    static MalformedModelException malformed(Node n, String what) {
        return new MalformedModelException(what, "node " + n.id() + " (" + n.opType() + ")", "export the model again");
    }

    static UnsupportedModelException unsupported(Node n, int version, String what) {
        return new UnsupportedModelException(
                n.opType() + " cannot be brought to opset " + version + ": " + what,
                "node " + n.id(),
                "export the model with opset " + OpsetUpgrade.TARGET + " or later");
    }
}
