package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;

/** Element type and concrete shape of a value that a program computes with. */
public record OperandType(DType dtype, Shape shape) {
    /** Number of elements. */
    public long count() {
        return shape.elementCount();
    }

    /** Bytes the elements take, packed for types narrower than a byte. */
    public long byteSize() {
        return Math.ceilDiv(Math.multiplyExact(count(), (long) dtype.bits()), 8L);
    }

    /** The same shape in another element type. */
    public OperandType as(DType newDtype) {
        return new OperandType(newDtype, shape);
    }

    /** As {@code F32 [2, 3]}. */
    @Override
    public String toString() {
        return dtype + " " + shape;
    }
}
