package dev.octet.formats.tensor;

/**
 * Name, element type and shape of a tensor.
 *
 * <p>Invariant: {@link #byteSize()} is defined, that is, the bits of all elements fit in a {@code long} and end at a byte border. The shape
 * counts logical elements of sub-byte types.
 */
public record TensorSpec(String name, DType dtype, Shape shape) {
    public TensorSpec {
        if (dtype == DType.STRING) {
            throw new IllegalArgumentException("tensor '" + name + "': text has no fixed width");
        }
        long bits = Math.multiplyExact(shape.elementCount(), (long) dtype.bits());
        if (bits % 8 != 0 && dtype.bits() == 6) {
            throw new IllegalArgumentException("tensor '" + name + "': " + bits + " bits do not end at a byte border");
        }
    }

    /** Bytes of the elements, packed for sub-byte types; an incomplete last byte counts as a byte. */
    public long byteSize() {
        return Math.ceilDiv(shape.elementCount() * dtype.bits(), 8L);
    }

    /** A copy with this name. */
    public TensorSpec withName(String newName) {
        return new TensorSpec(newName, dtype, shape);
    }

    /** For example {@code encoder.weight F32 [384, 1536]}. */
    @Override
    public String toString() {
        return name + " " + dtype + " " + shape;
    }
}
