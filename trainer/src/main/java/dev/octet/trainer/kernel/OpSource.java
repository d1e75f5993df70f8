package dev.octet.trainer.kernel;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.List;
import java.util.OptionalDouble;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * What an operator is read from: a node at concrete shapes.
 *
 * @param inputs types of the node's inputs; null for absent optional ones
 * @param constants values of those inputs that are constants (shapes, axes, scalars); null for others
 * @param opset version of the operator's domain
 */
public record OpSource(Node node, List<@Nullable OperandType> inputs, List<@Nullable Tensor> constants, long opset) {
    /** Whether input {@code i} is there. */
    public boolean has(int i) {
        return i < inputs.size() && inputs.get(i) != null;
    }

    /**
     * Type of input {@code i}.
     *
     * @throws UnsupportedModelException when it is absent
     */
    public OperandType input(int i) {
        OperandType type = i < inputs.size() ? inputs.get(i) : null;
        if (type == null) {
            throw refusal("input " + i + " is missing", "export the model again: the operator requires it");
        }
        return type;
    }

    /**
     * The integers of constant input {@code i} (I64 or I32).
     *
     * @throws UnsupportedModelException when it is computed while the model runs
     */
    public long[] longs(int i) {
        Tensor t = i < constants.size() ? constants.get(i) : null;
        if (t == null) {
            throw refusal(
                    "input " + i + " ('" + node.input(i) + "') is computed while the model runs",
                    "export the model with this input constant; training needs fixed shapes");
        }
        return new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes()).toLongs();
    }

    /** The number that input {@code i} is, when it is a constant of one element; empty otherwise. */
    public OptionalDouble number(int i) {
        Tensor t = i < constants.size() ? constants.get(i) : null;
        if (t == null || t.shape().elementCount() != 1) {
            return OptionalDouble.empty();
        }
        return OptionalDouble.of(new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes()).readNumber(0));
    }

    /**
     * Position of an axis of input 0's shape.
     *
     * @throws UnsupportedModelException when the shape has no such axis
     */
    public int axis(long axis, int rank) {
        if (axis < -rank || axis >= rank) {
            throw refusal(
                    "axis " + axis + " is outside of a shape of " + rank + " axes",
                    "the model is damaged; export it again");
        }
        return (int) (axis < 0 ? axis + rank : axis);
    }

    /**
     * The shape that the inputs {@code 0 .. n-1} have together after broadcasting.
     *
     * @throws UnsupportedModelException when they do not fit
     */
    public Shape broadcast(int n) {
        List<Shape> shapes =
                IntStream.range(0, n).mapToObj(i -> input(i).shape()).toList();
        return Broadcast.shape(shapes)
                .orElseThrow(() -> refusal(
                        "its inputs of shapes " + shapes + " do not broadcast",
                        "the model is damaged; export it again"));
    }

    /** An error that says which node cannot be trained, and why. */
    public UnsupportedModelException refusal(String what, String fix) {
        return new UnsupportedModelException(
                node.opType() + " cannot be trained: " + what, "node '" + node.id() + "'", fix);
    }
}
