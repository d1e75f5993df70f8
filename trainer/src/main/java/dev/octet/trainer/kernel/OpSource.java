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
 * Source of an operator: a node with concrete shapes.
 *
 * @param inputs types of the node's inputs; null for absent optional inputs
 * @param constants values of constant inputs (shapes, axes, scalars); null for other inputs
 * @param opset version of the operator's domain
 */
public record OpSource(Node node, List<@Nullable OperandType> inputs, List<@Nullable Tensor> constants, long opset) {
    /** Whether input {@code i} is present. */
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
     * @throws UnsupportedModelException when it is not constant
     */
    public long[] longs(int i) {
        Tensor t = i < constants.size() ? constants.get(i) : null;
        if (t == null) {
            throw refusal(
                    "input " + i + " ('" + node.input(i) + "') is computed at run time",
                    "export the model with this input constant; training needs fixed shapes");
        }
        return new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes()).toLongs();
    }

    /** Value of input {@code i} if it is a constant of one element; otherwise empty. */
    public OptionalDouble number(int i) {
        Tensor t = i < constants.size() ? constants.get(i) : null;
        if (t == null || t.shape().elementCount() != 1) {
            return OptionalDouble.empty();
        }
        return OptionalDouble.of(new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes()).readNumber(0));
    }

    /**
     * Index of an axis of a shape with {@code rank} axes; negative axes count from the end.
     *
     * @throws UnsupportedModelException when the shape has no such axis
     */
    public int axis(long axis, int rank) {
        if (axis < -rank || axis >= rank) {
            throw refusal(
                    "axis " + axis + " is out of range for a shape of " + rank + " axes",
                    "the model is damaged; export it again");
        }
        return (int) (axis < 0 ? axis + rank : axis);
    }

    /**
     * Broadcast shape of the inputs {@code 0 .. n-1}.
     *
     * @throws UnsupportedModelException when they are incompatible
     */
    public Shape broadcast(int n) {
        List<Shape> shapes =
                IntStream.range(0, n).mapToObj(i -> input(i).shape()).toList();
        return Broadcast.shape(shapes)
                .orElseThrow(() -> refusal(
                        "the input shapes " + shapes + " do not broadcast", "the model is damaged; export it again"));
    }

    /** The exception for a node that cannot be trained, with the reason. */
    public UnsupportedModelException refusal(String what, String fix) {
        return new UnsupportedModelException(
                node.opType() + " cannot be trained: " + what, "node '" + node.id() + "'", fix);
    }
}
