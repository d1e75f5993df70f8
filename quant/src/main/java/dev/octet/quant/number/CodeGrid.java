package dev.octet.quant.number;

import java.util.Locale;

/**
 * The numbers that codes stand for before a scale: what a tensor divided by its scale is rounded to. Rounding is to nearest, ties to even; values beyond the ends become the
 * ends, NaN stays NaN.
 */
public sealed interface CodeGrid {
    /** Bits of the widest integers; more have no advantage over BF16. */
    int MAX_BITS = 8;

    /** The smallest number. */
    float low();

    /** The largest number: Qp of Esser et al. */
    float high();

    /** The number nearest to {@code v}. */
    float nearest(float v);

    /** In words: {@code int4}, {@code int4 symmetric}, {@code uint2}, {@code e4m3fn}. */
    String text();

    /**
     * All whole numbers from {@code low} to {@code high}.
     *
     * @param least at most 0
     * @param largest at least 1
     */
    record Integers(int least, int largest) implements CodeGrid {
        /** @throws IllegalArgumentException when 0 is not between the ends, or more than 8 bits are needed */
        public Integers {
            if (least > 0 || largest < 1 || largest - least >= 1 << MAX_BITS) {
                throw new IllegalArgumentException("integers from " + least + " to " + largest);
            }
        }

        /** Two's complement: -2^(bits-1) .. 2^(bits-1)-1. */
        public static Integers signed(int bits) {
            return new Integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1);
        }

        /** Two's complement without its smallest number, so that both signs reach as far. */
        public static Integers symmetric(int bits) {
            return new Integers(1 - (1 << (bits - 1)), (1 << (bits - 1)) - 1);
        }

        /** 0 .. 2^bits-1. */
        public static Integers unsigned(int bits) {
            return new Integers(0, (1 << bits) - 1);
        }

        /** Bits of a code. */
        public int bits() {
            return Integer.SIZE - Integer.numberOfLeadingZeros(largest - least);
        }

        @Override
        public float low() {
            return least;
        }

        @Override
        public float high() {
            return largest;
        }

        @Override
        public float nearest(float v) {
            return (float) Math.rint(Math.clamp(v, (float) least, (float) largest));
        }

        @Override
        public String text() {
            if (least == 0) {
                return "uint" + bits();
            }
            return "int" + bits() + (least == -largest ? " symmetric" : "");
        }
    }

    /**
     * The finite numbers of a small float format.
     *
     * @param format E4M3FN, E5M2 or E2M1
     */
    record Floats(Float8Format format) implements CodeGrid {
        /** @throws IllegalArgumentException for other formats */
        public Floats {
            if (format != Float8Format.E4M3FN && format != Float8Format.E5M2 && format != Float8Format.E2M1) {
                throw new IllegalArgumentException(format + " is not E4M3FN, E5M2 or E2M1");
            }
        }

        /** Bits of a mantissa without the leading one. */
        public int mantissaBits() {
            return format == Float8Format.E4M3FN ? 3 : format == Float8Format.E5M2 ? 2 : 1;
        }

        /** Exponent of the smallest normal number, that of the subnormal ones too. */
        public int leastExponent() {
            return format == Float8Format.E4M3FN ? -6 : format == Float8Format.E5M2 ? -14 : 0;
        }

        @Override
        public float low() {
            return -format.maxValue();
        }

        @Override
        public float high() {
            return format.maxValue();
        }

        @Override
        public float nearest(float v) {
            float magnitude = Math.abs(v);
            if (Float.isNaN(magnitude)) {
                return v;
            }
            // in a binade the numbers are whole multiples of one step, and their last bit is even where the multiple is
            int exponent = Math.max(Math.getExponent(magnitude), leastExponent());
            float step = Math.scalb(1f, exponent - mantissaBits());
            float rounded = (float) Math.rint(magnitude / step) * step;
            return Math.copySign(Math.min(rounded, format.maxValue()), v);
        }

        @Override
        public String text() {
            return format.name().toLowerCase(Locale.ROOT);
        }
    }

    /** -1 and 1; zero becomes 1. DoReFa's weights of one bit. */
    record Signs() implements CodeGrid {
        @Override
        public float low() {
            return -1;
        }

        @Override
        public float high() {
            return 1;
        }

        @Override
        public float nearest(float v) {
            return v < 0 ? -1 : Float.isNaN(v) ? v : 1;
        }

        @Override
        public String text() {
            return "signs";
        }
    }
}
