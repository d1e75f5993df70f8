package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FusedMultiplyAddTest {
    /** Zeros, ones, ends of ranges, and values whose products lie halfway between two floats. */
    private static final float[] SPECIAL = {
        0f,
        -0f,
        1f,
        -1f,
        Float.MIN_VALUE,
        -Float.MIN_VALUE,
        Float.MIN_NORMAL,
        Math.nextDown(Float.MIN_NORMAL),
        Float.MAX_VALUE,
        -Float.MAX_VALUE,
        Float.POSITIVE_INFINITY,
        Float.NEGATIVE_INFINITY,
        Float.NaN,
        0x1.000002p0f,
        0x1.fffffep0f,
        0x1.001p0f,
        -0x1.001p0f,
        0x1p-24f,
        -0x1p-24f,
        0x1p-60f,
        -0x1p-60f,
        0x1.8p-75f,
        0x1p-126f,
        0x1p60f
    };

    private static void assertSameBits(float a, float b, float c) {
        float expected = Math.fma(a, b, c);
        assertEquals(expected, FusedMultiplyAdd.inDouble(a, b, c), () -> a + " * " + b + " + " + c);
        assertEquals(expected, FusedMultiplyAdd.of(a, b, c));
    }

    @Test
    void special_values_and_ties_give_the_bits_of_the_instruction() {
        for (float a : SPECIAL) {
            for (float b : SPECIAL) {
                for (float c : SPECIAL) {
                    assertSameBits(a, b, c);
                }
            }
        }
    }

    /** The product's last bits are lost next to an addend that is larger by 2^24 to 2^54: where rounding twice goes wrong. */
    @Test
    void sums_that_round_twice_in_double_are_rounded_once() {
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 20_000; i++) {
            float a = Float.intBitsToFloat(0x3f800000 | random.nextInt(1 << 23));
            // few bits, so that sums often lie near the middle between two floats
            float b = Float.intBitsToFloat(0x3f800000 | random.nextInt(1 << 4) << 19);
            float c = Math.scalb(1 + random.nextInt(1 << 4) * 0x1p-4f, random.nextInt(-80, 80));
            assertSameBits(a, b, c);
            assertSameBits(-a, b, c);
            assertSameBits(a, 0x1p-24f, c);
            assertSameBits(0x1.000002p-24f, 1 - 0x1p-24f, c);
        }
    }

    @Test
    void any_bits_give_the_bits_of_the_instruction() {
        SplittableRandom random = new SplittableRandom(2);
        for (int i = 0; i < 20_000; i++) {
            assertSameBits(
                    Float.intBitsToFloat(random.nextInt()),
                    Float.intBitsToFloat(random.nextInt()),
                    Float.intBitsToFloat(random.nextInt()));
        }
    }

    private static void assertSameBits(double a, double b, double c) {
        double expected = Math.fma(a, b, c);
        assertEquals(expected, FusedMultiplyAdd.inParts(a, b, c), () -> a + " * " + b + " + " + c);
        assertEquals(expected, FusedMultiplyAdd.of(a, b, c));
    }

    @Test
    void special_doubles_give_the_bits_of_the_instruction() {
        double[] special = {
            0.0,
            -0.0,
            1,
            -1,
            3,
            Double.MIN_VALUE,
            Double.MAX_VALUE,
            Double.MIN_NORMAL,
            Double.POSITIVE_INFINITY,
            Double.NaN,
            0x1p-800,
            0x1p800,
            0x1p-401,
            0x1.0000000000001p0,
            0x1.fffffffffffffp0,
            -0x1.0000000000001p-1,
            0x1p-53,
            -0x1p-106,
            0x1p-107,
            0x1.8p-53,
            0x1p53,
            0x1p54
        };
        for (double a : special) {
            for (double b : special) {
                for (double c : special) {
                    assertSameBits(a, b, c);
                    assertSameBits(a, b, -c);
                }
            }
        }
    }

    /** Addends from far below the product's last bit to far above its first, with few bits so that ties are frequent, and close to minus it. */
    @Test
    void doubles_are_rounded_once_wherever_the_addend_lies() {
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < 20_000; i++) {
            double a = 1 + random.nextLong(1L << 52) * 0x1p-52;
            double b = 1 + random.nextInt(1 << 5) * Math.scalb(1.0, -random.nextInt(5, 53));
            double c = Math.scalb(1 + random.nextInt(1 << 4) * 0x1p-4, random.nextInt(-170, 130));
            assertSameBits(a, b, c);
            assertSameBits(-a, b, c);
            assertSameBits(a, b, -(a * b));
            assertSameBits(a, b, Math.nextUp(-(a * b)));
            assertSameBits(a, 1 + 0x1p-52, -(1 + 0x1p-52) * Math.scalb(1.0, random.nextInt(-2, 2)));
            double any = Double.longBitsToDouble(random.nextLong());
            assertSameBits(any, Double.longBitsToDouble(random.nextLong()), Double.longBitsToDouble(random.nextLong()));
        }
    }
}
