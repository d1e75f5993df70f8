package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;

/** Element type and concrete shape of a value in a program. */
public record OperandType(DType dtype, Shape shape) {
    /** Number of elements. */
    public long count() {
        return shape.elementCount();
    }

    /** Size of the elements in bytes, packed for types narrower than a byte. */
    public long byteSize() {
        return Math.ceilDiv(Math.multiplyExact(count(), (long) dtype.bits()), 8L);
    }

    /** The same shape with another element type. */
    public OperandType as(DType newDtype) {
        return new OperandType(newDtype, shape);
    }

    /** Format: {@code F32 [2, 3]}. */
    @Override
    public String toString() {
        return dtype + " " + shape;
    }
}
