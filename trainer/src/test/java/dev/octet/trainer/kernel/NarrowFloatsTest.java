package dev.octet.trainer.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NarrowFloatsTest {
    private static final int CODES = 1 << 16;

    private final ScalarNarrowFloats scalar = new ScalarNarrowFloats();

    /** All 65536 codes in order. */
    private static MemorySegment codes(Arena arena) {
        MemorySegment all = arena.allocate(CODES * 2L);
        for (int i = 0; i < CODES; i++) {
            all.setAtIndex(ValueLayout.JAVA_SHORT, i, (short) i);
        }
        return all;
    }

    private static int[] bits(float[] x) {
        int[] bits = new int[x.length];
        for (int i = 0; i < x.length; i++) {
            bits[i] = Float.floatToRawIntBits(x[i]);
        }
        return bits;
    }

    /** Every sign and exponent with many mantissas, so that every rounding case of both formats comes up. */
    private static float[] floats() {
        float[] x = new float[1 << 20];
        for (int i = 0; i < x.length; i++) {
            // the upper 12 bits sweep; of the lower ones those that decide ties are set in all ways
            int low = i & 0xFF;
            x[i] = Float.intBitsToFloat(((i >>> 8) << 20) | ((low >>> 4) << 12) | (((low & 15) * 0x0FF7) & 0xFFFFF));
        }
        return x;
    }

    @Test
    void every_code_is_widened_to_the_same_bits_by_both_twins() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = codes(arena);
            float[] one = new float[CODES];
            float[] many = new float[CODES];
            scalar.readBf16(all, 0, one, 0, CODES);
            NarrowFloats.BEST.readBf16(all, 0, many, 0, CODES);
            assertTrue(Arrays.equals(bits(one), bits(many)), "BF16");
            scalar.readF16(all, 0, one, 0, CODES);
            NarrowFloats.BEST.readF16(all, 0, many, 0, CODES);
            for (int i = 0; i < CODES; i++) {
                int code = i;
                assertEquals(
                        Integer.toHexString(Float.floatToRawIntBits(one[i])),
                        Integer.toHexString(Float.floatToRawIntBits(many[i])),
                        () -> "F16 " + Integer.toHexString(code));
            }
        }
    }

    @Test
    void floats_are_rounded_to_the_same_codes_by_both_twins() {
        float[] x = floats();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment one = arena.allocate(x.length * 2L);
            MemorySegment many = arena.allocate(x.length * 2L);
            scalar.writeBf16(one, 0, x, 0, x.length);
            NarrowFloats.BEST.writeBf16(many, 0, x, 0, x.length);
            assertEquals(-1, one.mismatch(many), "BF16");
            scalar.writeF16(one, 0, x, 0, x.length);
            NarrowFloats.BEST.writeF16(many, 0, x, 0, x.length);
            for (int i = 0; i < x.length; i++) {
                short a = one.getAtIndex(ValueLayout.JAVA_SHORT, i);
                short b = many.getAtIndex(ValueLayout.JAVA_SHORT, i);
                if (a != b) { // which payload a NaN gets is the processor's choice
                    float f = x[i];
                    assertTrue(Float.isNaN(f) && Float.isNaN(Float.float16ToFloat(b)), () -> "F16 of " + f);
                }
            }
        }
    }

    @Test
    void runs_touch_nothing_beside_them() {
        try (Arena arena = Arena.ofConfined()) {
            for (int n = 0; n < 40; n++) {
                MemorySegment to = arena.allocate(200);
                float[] ones = new float[60];
                Arrays.fill(ones, 1);
                NarrowFloats.BEST.writeBf16(to, 7, ones, 3, n);
                float[] back = new float[60];
                NarrowFloats.BEST.readBf16(to, 6, back, 5, n + 2);
                for (int i = 0; i < back.length; i++) {
                    assertEquals(i >= 6 && i < 6 + n ? 1 : 0, back[i]);
                }
            }
        }
    }
}
