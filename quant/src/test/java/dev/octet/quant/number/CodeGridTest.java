package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CodeGridTest {
    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E4M3FN", "E5M2", "E2M1"})
    void floats_are_what_the_format_encodes_and_decodes(Float8Format format) {
        CodeGrid grid = new CodeGrid.Floats(format);
        SplittableRandom random = new SplittableRandom(7);
        for (int i = 0; i < 400_000; i++) {
            // half over all bit patterns, half where codes and their ties lie
            float v = i % 2 == 0
                    ? Float.intBitsToFloat(random.nextInt())
                    : Math.scalb(random.nextInt(1 << 7) + 0.5f * random.nextInt(2), random.nextInt(26) - 20);
            if (Float.isNaN(v)) {
                continue; // E2M1 has none; a grid keeps it
            }
            float expected = format.decode(format.encode(v, Overflow.SATURATE));
            assertEquals(expected, grid.nearest(v), () -> "nearest to " + v);
        }
    }

    @Test
    void integers_are_rounded_to_even_and_clipped() {
        CodeGrid int4 = CodeGrid.Integers.signed(4);
        assertEquals(2, int4.nearest(2.5f));
        assertEquals(4, int4.nearest(3.5f));
        assertEquals(7, int4.nearest(7.5f));
        assertEquals(-8, int4.nearest(-1e9f));
        assertEquals(-7, CodeGrid.Integers.symmetric(4).nearest(-1e9f));
        assertEquals(3, CodeGrid.Integers.unsigned(2).nearest(9));
        assertEquals(Float.NaN, int4.nearest(Float.NaN));
    }

    @Test
    void each_grid_says_what_it_is() {
        assertEquals("int4", CodeGrid.Integers.signed(4).text());
        assertEquals("int4 symmetric", CodeGrid.Integers.symmetric(4).text());
        assertEquals("uint2", CodeGrid.Integers.unsigned(2).text());
        assertEquals("e2m1", new CodeGrid.Floats(Float8Format.E2M1).text());
        assertEquals(8, CodeGrid.Integers.symmetric(8).bits());
    }

    @Test
    void more_than_eight_bits_and_formats_of_scales_are_refused() {
        assertThrows(IllegalArgumentException.class, () -> CodeGrid.Integers.signed(9));
        assertThrows(IllegalArgumentException.class, () -> new CodeGrid.Floats(Float8Format.E8M0));
    }
}
