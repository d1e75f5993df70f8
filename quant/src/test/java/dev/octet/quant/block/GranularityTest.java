package dev.octet.quant.block;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.Shape;
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
    void axes_that_are_not_there_and_empty_blocks_are_refused() {
        Shape shape = Shape.of(4);
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerChannel(1).scaleShape(shape));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerBlock(2, 2).blockShape(shape));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerToken().scaleShape(Shape.SCALAR));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.PerGroup(0, 0));
        assertThrows(IllegalArgumentException.class, () -> new Granularity.Mx(-1));
    }
}
