package dev.octet.converter.sensitivity;

import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * A Linear that can be quantised: one weight and the nodes that multiply with it.
 *
 * @param weight name of the constant, which in a checkpoint is the tensor's
 * @param nodes ids in the canonical graph, in its order
 * @param inputs values that these nodes read, without repetition
 * @param shape of the weight, [out, in]
 * @param transposed whether the graph holds the weight as [in, out]
 * @param storedBits bits of an element of the weight as the model stores it
 * @param group what engines fuse it into: layers of one group share a format; its own weight's name where it is not fused
 */
public record LinearLayer(
        String weight,
        List<String> nodes,
        List<String> inputs,
        Shape shape,
        boolean transposed,
        int storedBits,
        String group) {
    public LinearLayer {
        nodes = List.copyOf(nodes);
        inputs = List.copyOf(inputs);
    }

    /** Elements of the weight. */
    public long elements() {
        return shape.elementCount();
    }
}
