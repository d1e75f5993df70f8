package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** Shapes that are safe to compute with, and the way between numbers and dimensions. */
final class Shapes {
    private Shapes() {}

    /** A shape of at most {@link KnownValue#MAX_ELEMENTS} elements; empty when negative, overflowing or larger. */
    static Optional<Shape> small(long... dims) {
        long product = 1;
        for (long d : dims) {
            // A zero makes the whole empty, but its neighbours must still be sane numbers.
            if (d < 0 || d > KnownValue.MAX_ELEMENTS) {
                return Optional.empty();
            }
            product *= Math.max(1, d);
            if (product > KnownValue.MAX_ELEMENTS) {
                return Optional.empty();
            }
        }
        return Optional.of(Shape.of(dims));
    }

    static List<Dim> dims(Shape shape) {
        return Arrays.stream(shape.toArray()).mapToObj(Dim::of).toList();
    }

    /** The concrete shape; empty unless every dimension is a number. */
    static Optional<Shape> concrete(List<Dim> dims) {
        long[] numbers = new long[dims.size()];
        for (int i = 0; i < numbers.length; i++) {
            Long size = dims.get(i).size();
            if (size == null) {
                return Optional.empty();
            }
            numbers[i] = size;
        }
        return small(numbers);
    }

    /** {@code axis} counted from the front; empty when out of range. */
    static Optional<Integer> axis(long axis, int rank) {
        long a = axis < 0 ? axis + rank : axis;
        return a >= 0 && a < rank ? Optional.of((int) a) : Optional.empty();
    }
}
