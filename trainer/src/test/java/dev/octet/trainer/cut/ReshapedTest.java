package dev.octet.trainer.cut;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Cuts through reshapes, and the parts that ranks have. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReshapedTest {
    private static Shape shape(String text) {
        return Shape.of(
                Arrays.stream(text.split("x", -1)).mapToLong(Long::parseLong).toArray());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2x6x32   | 2x6x4x8   | 2 | 32       | 2 | 4",
                "2x6x4x8  | 2x6x32    | 2 | 4        | 2 | 32",
                "2x6x96   | 2x6x3x4x8 | 2 | 32 32 32 | 3 | 4",
                "2x6x3x4x8| 2x6x96    | 3 | 4        | 2 | 32 32 32",
                "12x32    | 2x6x32    | 1 | 32       | 2 | 32",
                "2x6x32   | 12x32     | 2 | 32       | 1 | 32",
                "2x6x32   | 12x32     | 1 | 6        | 0 | 6 6",
                "12x32    | 2x6x32    | 0 | 6 6      | 1 | 6",
                "2x4x6x8  | 8x6x8     | 1 | 4        | 0 | 4 4",
                "2x2x1x6x8| 2x2x6x8   | 1 | 2        | 1 | 2",
                "2x2x2x6x8| 2x4x6x8   | 1 | 2        | 1 | 4",
                "4x8      | 1x4x8x1   | 0 | 4        | 1 | 4"
            })
    void a_cut_follows_its_axis(String from, String to, int axis, String segments, int expected, String result) {
        List<Long> own =
                Arrays.stream(segments.split(" ", -1)).map(Long::parseLong).toList();
        List<Long> other =
                Arrays.stream(result.split(" ", -1)).map(Long::parseLong).toList();
        assertEquals(new Cut(expected, other), Reshaped.cut(new Cut(axis, own), shape(from), shape(to)));
    }

    /** Ranks would have pieces of several axes, or no whole elements of one. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"2x6x30 | 2x6x5x6 | 2 | 7 23", "3x4 | 2x6 | 1 | 4"})
    void a_cut_that_no_axis_has_afterwards_is_none(String from, String to, int axis, String segments) {
        List<Long> own =
                Arrays.stream(segments.split(" ", -1)).map(Long::parseLong).toList();
        assertEquals(null, Reshaped.cut(new Cut(axis, own), shape(from), shape(to)));
    }

    @Test
    void the_parts_of_all_ranks_are_the_whole_tensor_whatever_the_axis_and_the_segments() {
        SplittableRandom random = new SplittableRandom(4);
        for (int i = 0; i < 200; i++) {
            Shape shape = Shape.of(random.nextInt(1, 4), random.nextInt(2, 9), random.nextInt(1, 5));
            int axis = random.nextInt(3);
            long size = shape.dim(axis);
            long first = random.nextLong(size + 1);
            Cut cut = new Cut(axis, List.of(first, size - first));
            int ranks = random.nextInt(1, 5);
            float[] elements = new float[(int) shape.elementCount()];
            for (int k = 0; k < elements.length; k++) {
                elements[k] = k;
            }
            try (Arena arena = Arena.ofConfined()) {
                Tensor whole = Tensor.ofFloats(arena, "w", shape, elements);
                Tensor joined = Tensor.allocate(arena, whole.spec());
                for (int r = 0; r < ranks; r++) {
                    Part part = cut.part(shape, r, ranks);
                    Tensor own = part.of(whole, arena);
                    assertEquals(part.shape(), own.shape());
                    part.into(own, joined);
                }
                assertArrayEquals(elements, joined.toFloats(), cut + " of " + shape);
            }
        }
    }

    @Test
    void ranges_out_of_order_or_beyond_the_axis_are_no_part() {
        Shape shape = Shape.of(4, 6);
        assertThrows(IllegalArgumentException.class, () -> new Part(shape, 2, List.of(new Part.Range(0, 1))));
        assertThrows(IllegalArgumentException.class, () -> new Part(shape, 1, List.of(new Part.Range(0, 7))));
        assertThrows(
                IllegalArgumentException.class,
                () -> new Part(shape, 1, List.of(new Part.Range(2, 4), new Part.Range(1, 3))));
        assertThrows(IllegalArgumentException.class, () -> new Part(shape, 1, List.of(new Part.Range(3, 2))));
    }
}
