package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScaleNumbersTest {
    private static final List<DType> SMALL = List.of(DType.BF16, DType.F16, DType.U8, DType.F8_E8M0, DType.F8_E4M3FN);

    private static float[] read(DType number, byte[] stored) {
        int count = stored.length * 8 / number.bits();
        MemorySegment f32 = MemorySegment.ofArray(new byte[count * 4]);
        ScaleNumbers.read(number, MemorySegment.ofArray(stored), count, f32);
        return f32.toArray(ValueLayout.JAVA_FLOAT_UNALIGNED);
    }

    /** Stored bytes, or an exception; {@code exact} takes what {@code write} said. */
    private static byte[] write(DType number, float[] scales, List<Boolean> exact) {
        byte[] stored = new byte[scales.length * number.bits() / 8];
        exact.add(ScaleNumbers.write(
                number, MemorySegment.ofArray(scales), scales.length, MemorySegment.ofArray(stored)));
        return stored;
    }

    private static byte[] write(DType number, float... scales) {
        return write(number, scales, new ArrayList<>());
    }

    private static boolean exact(DType number, float... scales) {
        List<Boolean> exact = new ArrayList<>();
        write(number, scales, exact);
        return exact.getFirst();
    }

    /** All positive finite numbers of a type of at most 16 bits, as its bits. */
    private static List<byte[]> positiveNumbers(DType number) {
        List<byte[]> all = new ArrayList<>();
        for (int bits = 0; bits < 1 << number.bits(); bits++) {
            byte[] stored =
                    number.bits() == 8 ? new byte[] {(byte) bits} : new byte[] {(byte) bits, (byte) (bits >> 8)};
            float value = read(number, stored)[0];
            if (value >= 0 && value < Float.POSITIVE_INFINITY) {
                all.add(stored);
            }
        }
        return all;
    }

    @Test
    void every_number_of_every_type_comes_back_with_its_own_bits() {
        for (DType number : SMALL) {
            for (byte[] stored : positiveNumbers(number)) {
                float[] scale = read(number, stored);
                assertArrayEquals(stored, write(number, scale), number + " " + scale[0]);
                assertTrue(exact(number, scale), number + " " + scale[0]);
            }
        }
    }

    @Test
    void f32_comes_back_with_its_own_bits_whatever_it_is() {
        float[] scales = {0, -0f, 1, -1, Float.MIN_VALUE, Float.MAX_VALUE, Float.POSITIVE_INFINITY, Float.NaN};
        assertArrayEquals(scales, read(DType.F32, write(DType.F32, scales)));
        assertTrue(exact(DType.F32, scales));
    }

    @Test
    void reading_agrees_with_the_scalar_conversion() {
        for (DType number : List.of(DType.BF16, DType.F16, DType.F8_E8M0)) {
            byte[] all = new byte[(1 << number.bits()) * number.bits() / 8];
            for (int i = 0; i < 1 << number.bits(); i++) {
                all[i * number.bits() / 8] = (byte) i;
                if (number.bits() == 16) {
                    all[2 * i + 1] = (byte) (i >> 8);
                }
            }
            float[] scales = read(number, all);
            for (int i = 0; i < scales.length; i++) {
                assertEquals(StoredScale.get(number, MemorySegment.ofArray(all), i), scales[i], number + " " + i);
            }
        }
    }

    @Test
    void e4m3_codes_mean_what_the_format_says_and_u8_means_e8m0() {
        byte[] all = new byte[256];
        for (int code = 0; code < 256; code++) {
            all[code] = (byte) code;
        }
        assertArrayEquals(Float8Format.E4M3FN.decodeTable(), read(DType.F8_E4M3FN, all));
        assertArrayEquals(Float8Format.E8M0.decodeTable(), read(DType.U8, all));
    }

    @ParameterizedTest(name = "{0} seed 3")
    @EnumSource(
            value = DType.class,
            names = {"BF16", "F16", "F8_E8M0"})
    void rounding_in_the_normal_range_agrees_with_the_scalar_conversion(DType number) {
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < 20_000; i++) {
            float scale = Math.clamp(
                    Float.intBitsToFloat(random.nextInt(0x7F800000)),
                    StoredScale.smallest(number),
                    StoredScale.largest(number));
            float expected = StoredScale.round(scale, number);
            assertEquals(expected, read(number, write(number, scale))[0], number + " " + scale);
            assertEquals(expected == scale, exact(number, scale), number + " " + scale);
        }
    }

    @ParameterizedTest(name = "seed 4")
    @EnumSource(
            value = DType.class,
            names = {"F8_E4M3FN"})
    void e4m3_rounds_as_the_reference_saturates_and_never_becomes_nan(DType number) {
        SplittableRandom random = new SplittableRandom(4);
        for (int i = 0; i < 20_000; i++) {
            float scale = (float) Math.scalb(1 + random.nextDouble(), random.nextInt(-9, 20));
            int expected = Float8Format.E4M3FN.encode(scale, Overflow.SATURATE);
            assertArrayEquals(new byte[] {(byte) expected}, write(number, scale), () -> "scale " + scale);
        }
        assertArrayEquals(new byte[] {0x7E}, write(number, Float.MAX_VALUE));
    }

    @Test
    void a_positive_scale_never_becomes_zero_or_infinite() {
        for (DType number : SMALL) {
            for (float scale : new float[] {Float.MIN_VALUE, Float.MIN_NORMAL / 4, Float.MAX_VALUE}) {
                float stored = read(number, write(number, scale))[0];
                assertTrue(stored > 0 && stored < Float.POSITIVE_INFINITY, number + " " + scale + " " + stored);
                assertEquals(stored == scale, exact(number, scale), number + " " + scale);
            }
        }
    }

    @Test
    void zero_stays_zero_where_the_type_has_one() {
        for (DType number : List.of(DType.BF16, DType.F16, DType.F8_E4M3FN)) {
            assertEquals(0f, read(number, write(number, 0f))[0], number.toString());
            assertTrue(exact(number, 0f));
        }
        assertEquals(0x1p-127f, read(DType.F8_E8M0, write(DType.F8_E8M0, 0f))[0]);
        assertFalse(exact(DType.F8_E8M0, 0f));
    }

    @Test
    void one_rounded_scale_among_many_is_told() {
        assertTrue(exact(DType.BF16, 1, 2, 3));
        assertFalse(exact(DType.BF16, 1, 2.001f, 3));
        assertFalse(exact(DType.U8, 1, 2, 3));
    }

    @Test
    void what_is_no_scale_is_refused_with_its_place() {
        for (float scale : new float[] {-1, Float.NaN, Float.POSITIVE_INFINITY}) {
            for (DType number : SMALL) {
                Exception e = assertThrows(IllegalArgumentException.class, () -> write(number, 1, scale));
                assertEquals("scale 1 is " + scale + ", not finite and at least zero", e.getMessage());
            }
        }
    }

    @Test
    void a_global_factor_comes_in_and_goes_out_and_says_when_it_rounded() {
        MemorySegment scales = MemorySegment.ofArray(new float[] {1, 1.125f, 448, 0});
        assertTrue(ScaleNumbers.multiply(scales, 4, 0x1.8p-9f));
        assertEquals(448 * 0x1.8p-9f, scales.get(ValueLayout.JAVA_FLOAT, 8));
        assertTrue(ScaleNumbers.divide(scales, 4, 0x1.8p-9f));
        assertArrayEquals(new float[] {1, 1.125f, 448, 0}, scales.toArray(ValueLayout.JAVA_FLOAT));
        assertFalse(ScaleNumbers.divide(scales, 4, 3));
        assertEquals(1.125f / 3, scales.get(ValueLayout.JAVA_FLOAT, 4));
        assertFalse(ScaleNumbers.multiply(MemorySegment.ofArray(new float[] {1 / 3f}), 1, 1 / 7f));
    }

    @Test
    void the_first_unusable_scale_is_found() {
        for (float unusable : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
            assertEquals(1, ScaleNumbers.firstUnusable(MemorySegment.ofArray(new float[] {1, unusable, unusable}), 3));
        }
        assertEquals(-1, ScaleNumbers.firstUnusable(MemorySegment.ofArray(new float[] {1, Float.MIN_VALUE, 0}), 2));
    }

    @Test
    void other_types_and_short_segments_are_refused() {
        MemorySegment four = MemorySegment.ofArray(new byte[4]);
        assertThrows(IllegalArgumentException.class, () -> ScaleNumbers.read(DType.I8, four, 1, four));
        assertThrows(IllegalArgumentException.class, () -> ScaleNumbers.write(DType.I8, four, 1, four));
        assertThrows(IllegalArgumentException.class, () -> ScaleNumbers.read(DType.U8, four, 2, four));
        assertThrows(IllegalArgumentException.class, () -> ScaleNumbers.read(DType.F32, four, 2, four));
        assertThrows(IllegalArgumentException.class, () -> ScaleNumbers.read(DType.F32, four, -1, four));
    }
}
