package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.scale.ScaleGrid;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GranularityTest {
    @Test
    void scale_shapes_round_overhanging_blocks_up() {
        Shape shape = Shape.of(300, 1000);
        assertEquals(Shape.SCALAR, new Granularity.PerTensor().scaleShape(shape));
        assertEquals(Shape.of(300), new Granularity.PerChannel(0).scaleShape(shape));
        assertEquals(Shape.of(1000), new Granularity.PerChannel(-1).scaleShape(shape));
        assertEquals(Shape.of(300, 1), new Granularity.PerToken().scaleShape(shape));
        assertEquals(Shape.of(300, 8), new Granularity.PerGroup(1, 128).scaleShape(shape));
        assertEquals(Shape.of(3, 1000), new Granularity.PerGroup(0, 128).scaleShape(shape));
        assertEquals(Shape.of(3, 8), new Granularity.PerBlock(128, 128).scaleShape(shape));
        assertEquals(Shape.of(300, 32), new Granularity.Mx(32).scaleShape(shape));
    }

    @Test
    void elements_find_the_scale_of_their_block() {
        Shape shape = Shape.of(5, 7);
        Granularity blocks = new Granularity.PerBlock(2, 3);
        for (int row = 0; row < 5; row++) {
            for (int column = 0; column < 7; column++) {
                assertEquals(row / 2 * 3 + column / 3, blocks.scaleIndex(shape, row * 7 + column));
            }
        }
    }

    @Test
    void runs_give_each_element_its_scale_once_and_in_order() {
        List<Granularity> granularities = List.of(
                new Granularity.PerTensor(),
                new Granularity.PerChannel(0),
                new Granularity.PerChannel(1),
                new Granularity.PerChannel(3),
                new Granularity.PerToken(),
                new Granularity.PerGroup(0, 2),
                new Granularity.PerGroup(1, 2),
                new Granularity.PerGroup(2, 100),
                new Granularity.PerGroup(-1, 2),
                new Granularity.PerBlock(2, 3),
                new Granularity.PerBlock(1, 7),
                new Granularity.Mx(4));
        for (Shape shape : List.of(Shape.of(3, 4, 5, 7), Shape.of(1, 4, 6, 4), Shape.of(2, 2, 1, 1))) {
            for (Granularity granularity : granularities) {
                ScaleGrid grid = ScaleGrid.of(shape, granularity);
                assertEquals(granularity.scaleShape(shape).elementCount(), grid.scaleCount());
                checkRuns(grid, shape, granularity, 0, shape.elementCount());
                checkRuns(grid, shape, granularity, 1, shape.elementCount() - 1);
            }
        }
    }

    private static void checkRuns(ScaleGrid grid, Shape shape, Granularity granularity, long from, long to) {
        long[] next = {from};
        ScaleGrid.Range range = grid.scalesOf(from, to);
        grid.forEachRun(from, to, new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                for (long i = 0; i < count; i++) {
                    check(first + i, scale);
                }
            }

            @Override
            public void each(long first, long count, long scale) {
                for (long i = 0; i < count; i++) {
                    check(first + i, scale + i);
                }
            }

            private void check(long element, long scale) {
                String what = shape + " " + granularity + " element " + element;
                assertEquals(next[0]++, element, what);
                assertEquals(granularity.scaleIndex(shape, element), scale, what);
                assertEquals(Math.clamp(scale, range.first(), range.first() + range.count() - 1), scale, what);
            }
        });
        assertEquals(to, next[0]);
    }

    @Test
    void a_tensor_with_one_scale_and_rows_of_their_own_are_long_runs() {
        int[] runs = {0};
        ScaleGrid.Visitor counter = new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                runs[0]++;
            }

            @Override
            public void each(long first, long count, long scale) {
                runs[0]++;
            }
        };
        Shape shape = Shape.of(8, 4, 3, 3);
        ScaleGrid.of(shape, new Granularity.PerTensor()).forEachRun(0, 288, counter);
        assertEquals(1, runs[0]);
        ScaleGrid.of(shape, new Granularity.PerChannel(0)).forEachRun(0, 288, counter);
        assertEquals(1 + 8, runs[0]);
    }

    @Test
    void axes_that_are_not_there_and_empty_blocks_are_refused() {
        Shape shape = Shape.of(4);
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerChannel(1).scaleShape(shape));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerBlock(2, 2).blockShape(shape));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerToken().scaleShape(Shape.SCALAR));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerGroup(0, 0));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.Mx(-1));
    }
}
