package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * One node being replaced by several, in its place and in order; the last computes its value. Names of new nodes and values derive from
 * the replaced node's.
 */
public final class Expansion {
    private static final int AXES_ARE_INPUT = 18;

    private final GraphEdit edit;
    private final Node old;
    private final Map<String, Integer> used = new HashMap<>();

    /** @param old a live node of {@code edit} */
    public Expansion(GraphEdit edit, Node old) {
        this.edit = edit;
        this.old = old;
    }

    /** Puts a node in, and gives the name of the value it computes. */
    public String node(String op, List<String> inputs, Attribute... attributes) {
        String name = name(op);
        String value = edit.freshName(old.output() + "/" + name.substring(name.lastIndexOf('/') + 1));
        edit.insertBefore(old, Node.of(name, op, inputs, List.of(value), attributes));
        return value;
    }

    /** Puts a node in that computes a further output of the replaced node, under that output's name. */
    public void output(int i, String op, List<String> inputs, Attribute... attributes) {
        edit.insertBefore(old, Node.of(name(op), op, inputs, List.of(old.output(i)), attributes));
    }

    /** The node that computes the replaced node's first output; it takes over that node's metadata. */
    public void last(String op, List<String> inputs, Attribute... attributes) {
        edit.replace(
                old,
                Node.of(name(op), op, inputs, List.of(old.output()), attributes).withMetadata(old.metadata()));
    }

    private String name(String op) {
        int n = used.merge(op, 1, Integer::sum);
        return old.id() + "/" + op + (n == 1 ? "" : "_" + (n - 1));
    }

    /** {@code value} in another type; itself when it has that type. */
    public String cast(String value, DType from, DType to) {
        return from == to ? value : node("Cast", List.of(value), Attribute.of("to", to.onnxId()));
    }

    /** Mean over the innermost axis, which stays. */
    public String mean(String value, long opset) {
        return opset >= AXES_ARE_INPUT
                ? node("ReduceMean", List.of(value, lastAxis()))
                : node("ReduceMean", List.of(value), Attribute.of("axes", List.of(-1L)));
    }

    /** sqrt(mean(value²) + the node's {@code epsilon}), in F32. */
    public String deviation(String value, Node norm, long opset) {
        String mean = mean(node("Mul", List.of(value, value)), opset);
        String sum = node("Add", List.of(mean, number(norm.floatAttribute("epsilon", 1e-5f), DType.F32)));
        return node("Sqrt", List.of(sum));
    }

    private String lastAxis() {
        return numbers(-1);
    }

    /** A constant I64 vector, shared by all who need the same numbers: axes, sizes of a shape. */
    public String numbers(long... values) {
        String name = "dev.octet.I64."
                + Arrays.stream(values).mapToObj(Long::toString).collect(Collectors.joining("x"));
        if (edit.initializer(name) == null) {
            edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values)));
        }
        return name;
    }

    /** A constant vector of {@code count} ones, shared likewise. */
    public String ones(long count, DType dtype) {
        String name = "dev.octet." + dtype + ".ones." + count;
        if (edit.initializer(name) == null) {
            Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, Shape.of(count)));
            for (long i = 0; i < count; i++) {
                put(t, i, 1);
            }
            edit.putInitializer(Initializer.of(t));
        }
        return name;
    }

    /**
     * A constant of rank 0, shared by all that need the same number.
     *
     * @param dtype F64, F32, F16, BF16, I64, I32, or BOOL for 0 and 1
     */
    public String number(double value, DType dtype) {
        String name = "dev.octet." + dtype + "." + value;
        if (edit.initializer(name) == null) {
            Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, Shape.SCALAR));
            put(t, 0, value);
            edit.putInitializer(Initializer.of(t));
        }
        return name;
    }

    private static void put(Tensor t, long i, double value) {
        float f = (float) value;
        switch (t.dtype()) {
            case F64 -> t.bytes().set(Tensor.F64_LE, 8 * i, value);
            case F16 -> t.bytes().set(Tensor.I16_LE, 2 * i, Float.floatToFloat16(f));
            case BF16 -> t.bytes().set(Tensor.I16_LE, 2 * i, bf16(f));
            case F32 -> t.bytes().set(Tensor.F32_LE, 4 * i, f);
            case I64 -> t.bytes().set(Tensor.I64_LE, 8 * i, (long) value);
            case BOOL -> t.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) value);
            case I32 -> t.bytes().set(Tensor.I32_LE, 4 * i, (int) value);
            default ->
                throw new IllegalArgumentException(t.name() + ": no type of numbers that operators compute with");
        }
    }

    /** To nearest, ties to even; finite numbers only. */
    private static short bf16(float value) {
        int bits = Float.floatToIntBits(value);
        return (short) ((bits + 0x7FFF + ((bits >>> 16) & 1)) >>> 16);
    }
}
