package dev.octet.trainer.kernel;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.util.List;
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

    /** An error that says which node cannot be trained, and why. */
    public UnsupportedModelException refusal(String what, String fix) {
        return new UnsupportedModelException(
                node.opType() + " cannot be trained: " + what, "node '" + node.id() + "'", fix);
    }
}
