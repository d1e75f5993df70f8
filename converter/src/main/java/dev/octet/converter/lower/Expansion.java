package dev.octet.converter.lower;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * One canonical node being replaced by several: they go to its place, in order, the last computing its value. Names of nodes and
 * values inside derive from the canonical node's.
 */
final class Expansion {
    private static final int AXES_ARE_INPUT = 18;

    private final GraphEdit edit;
    private final Node old;
    private final Map<String, Integer> used = new HashMap<>();

    Expansion(GraphEdit edit, Node old) {
        this.edit = edit;
        this.old = old;
    }

    /** Puts a node in, and gives the name of the value it computes. */
    String node(String op, List<String> inputs, Attribute... attributes) {
        String name = name(op);
        String value = edit.freshName(old.output() + "/" + name.substring(name.lastIndexOf('/') + 1));
        edit.insertBefore(old, Node.of(name, op, inputs, List.of(value), attributes));
        return value;
    }

    /** The node that computes the canonical node's value; it takes over what is known of that node. */
    void last(String op, List<String> inputs, Attribute... attributes) {
        edit.replace(
                old, Node.of(name(op), op, inputs, old.outputs(), attributes).withMetadata(old.metadata()));
    }

    private String name(String op) {
        int n = used.merge(op, 1, Integer::sum);
        return old.id() + "/" + op + (n == 1 ? "" : "_" + (n - 1));
    }

    /** {@code value} in another type; itself when it has that type. */
    String cast(String value, DType from, DType to) {
        return from == to ? value : node("Cast", List.of(value), Attribute.of("to", to.onnxId()));
    }

    /** Mean over the innermost axis, which stays. */
    String mean(String value, long opset) {
        return opset >= AXES_ARE_INPUT
                ? node("ReduceMean", List.of(value, lastAxis()))
                : node("ReduceMean", List.of(value), Attribute.of("axes", List.of(-1L)));
    }

    /** sqrt(mean(value²) + the canonical node's epsilon), in F32. */
    String deviation(String value, Node norm, long opset) {
        String mean = mean(node("Mul", List.of(value, value)), opset);
        String sum = node("Add", List.of(mean, number(norm.floatAttribute("epsilon", 1e-5f), DType.F32)));
        return node("Sqrt", List.of(sum));
    }

    private String lastAxis() {
        String name = "dev.octet.last_axis";
        if (edit.initializer(name) == null) {
            edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(1), -1)));
        }
        return name;
    }

    /**
     * A constant of rank 0, shared by all who need the same number.
     *
     * @param dtype F64, F32, F16 or BF16
     */
    String number(double value, DType dtype) {
        String name = "dev.octet." + dtype + "." + value;
        if (edit.initializer(name) == null) {
            Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, Shape.SCALAR));
            float f = (float) value;
            switch (dtype) {
                case F64 -> t.bytes().set(Tensor.F64_LE, 0, value);
                case F16 -> t.bytes().set(Tensor.I16_LE, 0, Float.floatToFloat16(f));
                case BF16 -> t.bytes().set(Tensor.I16_LE, 0, bf16(f));
                case F32 -> t.bytes().set(Tensor.F32_LE, 0, f);
                default -> throw new IllegalArgumentException(name + ": no type of a GELU");
            }
            edit.putInitializer(Initializer.of(t));
        }
        return name;
    }

    /** To nearest, ties to even; finite numbers only. */
    private static short bf16(float value) {
        int bits = Float.floatToIntBits(value);
        return (short) ((bits + 0x7FFF + ((bits >>> 16) & 1)) >>> 16);
    }
}
