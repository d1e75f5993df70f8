package dev.octet.formats.tensor;

import java.util.Arrays;

/**
 * Dimensions of a tensor, outermost first (row-major). Rank 0 is a scalar with one element; a dimension may be 0.
 *
 * <p>Invariant: every dimension is at least 0 and the product fits in a {@code long}.
 */
public final class Shape {
    /** The shape of a scalar. */
    public static final Shape SCALAR = new Shape(new long[0]);

    private final long[] dims;

    private Shape(long[] dims) {
        this.dims = dims;
    }

    /**
     * Makes a shape.
     *
     * @throws IllegalArgumentException when a dimension is negative
     * @throws ArithmeticException when the number of elements overflows a {@code long}
     */
    public static Shape of(long... dims) {
        if (dims.length == 0) {
            return SCALAR;
        }
        // A zero makes the product 0, but the rest must still not overflow: readers of other languages multiply in
        // order.
        long product = 1;
        for (long d : dims) {
            if (d < 0) {
                throw new IllegalArgumentException("negative dimension in " + Arrays.toString(dims));
            }
            product = Math.multiplyExact(product, d);
        }
        return new Shape(dims.clone());
    }

    public int rank() {
        return dims.length;
    }

    /** Dimension {@code axis}; negative axes count from the end, -1 being the innermost. */
    public long dim(int axis) {
        return dims[axis < 0 ? axis + dims.length : axis];
    }

    /** A copy of all dimensions. */
    public long[] toArray() {
        return dims.clone();
    }

    /** Number of elements: the product of the dimensions, 1 for a scalar. */
    public long elementCount() {
        long product = 1;
        for (long d : dims) {
            product *= d; // cannot overflow: checked by of()
        }
        return product;
    }

    @Override
    public boolean equals(Object o) {
        return o instanceof Shape s && Arrays.equals(dims, s.dims);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(dims);
    }

    /** As {@code [2, 3]}; {@code []} for a scalar. */
    @Override
    public String toString() {
        return Arrays.toString(dims);
    }
}
