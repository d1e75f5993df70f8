package dev.octet.quant.block;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BlocksTest {
    private static final List<Granularity> GRANULARITIES = List.of(
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

    @Test
    void elements_find_the_scale_of_their_block() {
        Blocks blocks = Blocks.of(Shape.of(5, 7), new Granularity.PerBlock(2, 3));
        for (int row = 0; row < 5; row++) {
            assertEquals(row / 2 * 3L, blocks.scaleOfRow(row));
            for (int column = 0; column < 7; column++) {
                assertEquals(row / 2 * 3 + column / 3, blocks.scaleOf(row * 7 + column));
            }
        }
    }

    @Test
    void runs_give_each_element_its_scale_once_and_in_order() {
        for (Shape shape : List.of(Shape.of(3, 4, 5, 7), Shape.of(1, 4, 6, 4), Shape.of(2, 2, 1, 1))) {
            for (Granularity granularity : GRANULARITIES) {
                Blocks blocks = Blocks.of(shape, granularity);
                assertEquals(granularity.scaleShape(shape).elementCount(), blocks.scaleCount());
                checkRuns(blocks, blocks.runs());
                checkRuns(blocks, blocks.runs(1, shape.elementCount() - 1));
                for (ScaleRuns part : blocks.runs().cut(10)) {
                    checkRuns(blocks, part);
                }
            }
        }
    }

    private static void checkRuns(Blocks blocks, ScaleRuns runs) {
        List<Long> scales = new ArrayList<>();
        runs.forEach((first, count, scale, size) -> {
            assertEquals(runs.from() + scales.size(), first);
            for (long i = 0; i < count; i++) {
                scales.add(scale + i / size);
            }
        });
        List<Long> grouped = new ArrayList<>();
        runs.forEachGroup((first, count, scale) -> {
            assertEquals(runs.from() + grouped.size(), first);
            for (long i = 0; i < count; i++) {
                grouped.add(scale);
            }
        });
        List<Long> expected = new ArrayList<>();
        for (long i = 0; i < runs.elements(); i++) {
            expected.add(blocks.scaleOf(runs.from() + i));
        }
        assertEquals(expected, scales, blocks::toString);
        assertEquals(expected, grouped, blocks::toString);
        assertEquals(expected.stream().mapToLong(s -> s).min().orElse(0), runs.firstScale());
        assertEquals(expected.stream().mapToLong(s -> s + 1).max().orElse(0), runs.firstScale() + runs.scaleCount());
    }

    @Test
    void a_tensor_with_one_scale_rows_with_their_own_and_groups_that_end_with_the_rows_are_one_run() {
        Shape shape = Shape.of(8, 4, 3, 4);
        for (Granularity granularity : List.of(
                new Granularity.PerTensor(),
                new Granularity.PerChannel(0),
                new Granularity.PerToken(),
                new Granularity.PerGroup(-1, 2))) {
            int[] runs = {0};
            Blocks.of(shape, granularity).runs().forEach((_, _, _, _) -> runs[0]++);
            assertEquals(1, runs[0], granularity::toString);
        }
    }

    @Test
    void each_expert_has_the_scales_of_a_matrix_of_its_own() {
        for (Granularity granularity : List.of(
                new Granularity.PerTensor(),
                new Granularity.PerChannel(-2),
                new Granularity.PerGroup(-1, 3),
                new Granularity.PerBlock(2, 3))) {
            Blocks one = Blocks.of(Shape.of(5, 7), granularity);
            Blocks weight = Blocks.ofEachMatrix(Shape.of(2, 2, 5, 7), granularity);
            assertEquals(4, weight.matrices());
            assertEquals(20, weight.allRows());
            assertEquals(4 * one.scaleCount(), weight.scaleCount());
            for (int i = 0; i < 4 * 35; i++) {
                assertEquals(i / 35 * one.scaleCount() + one.scaleOf(i % 35), weight.scaleOf(i), granularity::toString);
            }
            for (int row = 0; row < 20; row++) {
                assertEquals(weight.scaleOf(row * 7L), weight.scaleOfRow(row), granularity::toString);
            }
        }
    }

    @Test
    void tensors_without_elements_have_no_runs_and_keep_their_scales() {
        Blocks blocks = Blocks.of(Shape.of(0, 5), new Granularity.PerTensor());
        assertEquals(1, blocks.runs().scaleCount());
        blocks.runs().forEach((_, _, _, _) -> fail("a run"));
        assertEquals(List.of(), blocks.runs().cut(4));
    }

    @Test
    void blocks_that_do_not_fit_their_tensor_or_their_scales_are_refused() {
        Shape shape = Shape.of(4, 4);
        assertThrows(IllegalArgumentException.class, () -> new Blocks(shape, Shape.of(2), Shape.of(2)));
        assertThrows(IllegalArgumentException.class, () -> new Blocks(shape, Shape.of(2, 0), Shape.of(2)));
        assertThrows(IllegalArgumentException.class, () -> new Blocks(shape, Shape.of(2, 2), Shape.of(2)));
    }
}
