package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NumberGridTest {
    private static final QuantType[] FLOATS = {
        QuantType.E4M3FN, QuantType.E5M2, QuantType.E4M3FNUZ, QuantType.E5M2FNUZ, QuantType.E2M1
    };

    @Test
    void the_unit_of_a_code_is_the_distance_to_the_next_code() {
        for (QuantType codes : FLOATS) {
            Float8Format format = codes.minifloat().orElseThrow();
            NumberGrid grid = NumberGrid.quantized(codes, DType.F32);
            for (int code = 0; code < format.maxCode(); code++) {
                double distance = (double) format.decode(code + 1) - format.decode(code);
                for (float scale : new float[] {1, 0.037f, 3e-8f, 117.3f}) {
                    float value = format.decode(code) * scale;
                    float between = (float) ((format.decode(code) + 0.3 * distance) * scale);
                    assertEquals(distance * scale, grid.ulp(value, scale), 1e-12 * scale, codes + " " + code);
                    assertEquals(distance * scale, grid.ulp(between, scale), 1e-12 * scale, codes + " " + code);
                }
            }
        }
    }

    @Test
    void beyond_the_largest_number_counts_the_unit_of_the_top_binade() {
        NumberGrid grid = NumberGrid.quantized(QuantType.E4M3FN, DType.F32);
        assertEquals(32, grid.ulp(448, 1));
        assertEquals(32, grid.ulp(1e6f, 1));
    }

    @Test
    void the_unit_of_F32_is_that_of_the_language() {
        NumberGrid grid = NumberGrid.plain(DType.F32);
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < 100_000; i++) {
            float x = Math.abs(Float.intBitsToFloat(random.nextInt()));
            if (Float.isFinite(x)) {
                assertEquals((double) Math.ulp(x), grid.ulp(x, 1), "at " + x);
            }
        }
    }

    @Test
    void the_unit_of_BF16_is_the_distance_to_the_next_number() {
        NumberGrid grid = NumberGrid.plain(DType.BF16);
        for (int bits = 0; bits < 0x7F7F; bits++) {
            double here = BFloat16.toFloat((short) bits);
            double next = BFloat16.toFloat((short) (bits + 1));
            assertEquals(next - here, grid.ulp((float) here, 1), "bits " + bits);
        }
    }

    @Test
    void integers_are_one_scale_apart() {
        NumberGrid grid = NumberGrid.quantized(QuantType.INT8, DType.F32);
        assertEquals(0.25, grid.ulp(3, 0.25f));
        assertEquals(0.25, grid.ulp(0, 0.25f));
    }

    @Test
    void an_honest_rounding_is_never_more_than_half_a_unit() {
        SplittableRandom random = new SplittableRandom(4);
        for (QuantType codes : FLOATS) {
            NumberGrid grid = NumberGrid.quantized(codes, DType.F32);
            Float8Format format = codes.minifloat().orElseThrow();
            for (int i = 0; i < 200_000; i++) {
                float scale = (float) Math.exp(random.nextDouble(-9, 2));
                float x = (float) (random.nextGaussian() * scale * format.maxValue() / 6);
                if (Math.abs(x) > format.maxValue() * scale) {
                    continue;
                }
                float y = format.decode(format.encode(x / scale, Overflow.SATURATE)) * scale;
                double inUnits = Math.abs((double) x - y) / grid.ulpBetween(x, y, scale);
                assertTrue(inUnits <= 0.5 + grid.slack(), codes + ": " + x + " to " + y + " with scale " + scale);
            }
        }
    }

    @Test
    void a_code_of_a_tiny_scale_is_no_further_off_because_F32_cut_its_product() {
        NumberGrid grid = NumberGrid.quantized(QuantType.E4M3FN, DType.F32);
        float scale = 2.0892914e-38f;
        float y = -0.25f * scale; // subnormal: a little less than a quarter of the scale
        assertTrue(Math.abs(y / scale) < 0.25f);
        assertTrue(Math.abs(-5.537173e-39 - y) / grid.ulpBetween(-5.537173e-39f, y, scale) <= 0.5 + grid.slack());
    }

    @Test
    void the_distance_of_numbers_of_different_size_is_told_in_units_of_the_larger() {
        NumberGrid grid = NumberGrid.quantized(QuantType.E4M3FN, DType.F32);
        assertEquals(grid.ulp(16, 1) / 2, grid.ulpBetween(0.01f, -16, 1));
        assertEquals(0.125, grid.ulpBetween(1.9f, 2, 1), "over one border between binades the smaller unit counts");
    }

    @ParameterizedTest
    @EnumSource(
            value = QuantType.class,
            names = {"E4M3FN", "E5M2", "E4M3FNUZ", "E5M2FNUZ", "E2M1"})
    void rounding_is_that_of_the_casts(QuantType codes) {
        Float8Format format = codes.minifloat().orElseThrow();
        NumberGrid grid = NumberGrid.quantized(codes, DType.F32);
        SplittableRandom random = new SplittableRandom(5);
        for (int i = 0; i < 100_000; i++) {
            float scale = (float) Math.exp(random.nextDouble(-9, 2));
            float x = (float) (random.nextGaussian() * scale * format.maxValue() / 2);
            float cast = format.decode(format.encode(x / scale, Overflow.SATURATE)) * scale;
            assertEquals(cast, grid.round(x, scale), 0f, x + " with scale " + scale);
        }
    }

    @Test
    void codes_without_a_scale_are_no_plain_numbers() {
        assertThrows(IllegalArgumentException.class, () -> NumberGrid.plain(DType.F8_E4M3FN));
    }
}
