package dev.octet.formats.torch;

import dev.octet.formats.model.Pieces;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;

/**
 * A tensor of torch in a file.
 *
 * @param pieces where its elements lie: at the distances of its strides in the bytes of its storage
 */
public record TorchTensor(DType dtype, Shape shape, Pieces pieces) {
    /** Name, type and shape. */
    public TensorSpec spec(String name) {
        return new TensorSpec(name, dtype, shape);
    }
}
