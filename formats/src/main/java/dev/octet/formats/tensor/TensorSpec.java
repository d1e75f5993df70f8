package dev.octet.formats.tensor;

/**
 * What is known of a tensor without its bytes.
 *
 * <p>Invariant: {@link #byteSize()} can be computed, that is, the bits of all elements fit in a {@code long} and end at a byte
 * border. Sub-byte types count logical elements in the shape.
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

    /** Bytes the elements take: packed for sub-byte types, an incomplete last byte counting whole. */
    public long byteSize() {
        return Math.ceilDiv(shape.elementCount() * dtype.bits(), 8L);
    }

    /** The same with another name. */
    public TensorSpec withName(String newName) {
        return new TensorSpec(newName, dtype, shape);
    }

    /** As {@code encoder.weight F32 [384, 1536]}. */
    @Override
    public String toString() {
        return name + " " + dtype + " " + shape;
    }
}
