package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.GlobalScale.Direction;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GlobalScaleTest {
    private static final float[] AMAXES = {
        0, Float.MIN_VALUE, 1e-38f, 1e-30f, 0.02f, 6, 448, 2688, 1e30f, Float.MAX_VALUE
    };

    private static byte[] blocks(GlobalScale global, float[] amax) {
        MemorySegment stored = MemorySegment.ofArray(new byte[amax.length]);
        global.blocks(MemorySegment.ofArray(amax), amax.length, Float8Format.E2M1, stored);
        return stored.toArray(ValueLayout.JAVA_BYTE);
    }

    @ParameterizedTest
    @EnumSource(Direction.class)
    void the_largest_block_takes_the_largest_number_and_lands_on_the_largest_code(Direction direction) {
        for (float amax : new float[] {1e-30f, 0.02f, 6, 448, 2688, 1e30f}) {
            float[] scales = {amax};
            assertArrayEquals(new byte[] {0x7E}, blocks(GlobalScale.of(amax, Float8Format.E2M1, direction), scales));
            assertEquals(6, amax / scales[0], 1e-5f, "amax " + amax);
        }
    }

    @ParameterizedTest
    @EnumSource(Direction.class)
    void no_magnitudes_whatever_give_a_scale_of_zero_or_nan(Direction direction) {
        for (float whole : AMAXES) {
            GlobalScale global = GlobalScale.of(whole, Float8Format.E2M1, direction);
            for (float amax : AMAXES) {
                if (amax <= whole) {
                    float[] scales = {amax};
                    byte code = blocks(global, scales)[0];
                    assertTrue(code > 0 && code < 0x7F, whole + " " + amax);
                    assertTrue(scales[0] > 0 && scales[0] < Float.POSITIVE_INFINITY, whole + " " + amax);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Direction.class)
    void a_block_of_zeros_has_the_scale_one_below_the_global_one(Direction direction) {
        GlobalScale global = GlobalScale.of(100, Float8Format.E2M1, direction);
        assertArrayEquals(new byte[] {0x38}, blocks(global, new float[] {0}));
    }

    @ParameterizedTest
    @EnumSource(Direction.class)
    void scales_read_are_those_quantised_with(Direction direction) {
        GlobalScale global = GlobalScale.of(7, Float8Format.E2M1, direction);
        float[] scales = {0.1f, 1, 2, 7};
        byte[] codes = blocks(global, scales);
        float[] read = new float[4];
        global.read(MemorySegment.ofArray(codes), 4, MemorySegment.ofArray(read));
        assertArrayEquals(scales, read);
        float block = Float8Format.E4M3FN.decode(codes[1]);
        assertEquals(direction == Direction.DIVISOR ? block / global.value() : block * global.value(), read[1]);
    }

    @ParameterizedTest
    @EnumSource(Direction.class)
    void what_is_no_scale_is_refused(Direction direction) {
        for (float bad : new float[] {-1, Float.NaN, Float.POSITIVE_INFINITY}) {
            assertThrows(IllegalArgumentException.class, () -> GlobalScale.of(bad, Float8Format.E2M1, direction));
            assertThrows(IllegalArgumentException.class, () -> new GlobalScale(bad, direction));
        }
        assertThrows(IllegalArgumentException.class, () -> new GlobalScale(0, direction));
    }
}
