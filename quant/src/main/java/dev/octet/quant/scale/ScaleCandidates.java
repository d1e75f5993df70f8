package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.ScaleRule.MseRule;
import java.util.function.DoubleUnaryOperator;

/** The numbers that a search tries for the scale of a block, in order: of equally good ones the first is taken. */
public sealed interface ScaleCandidates {
    /** How many there are. */
    int count();

    /**
     * A number as the file holds it.
     *
     * @param index below {@link #count}
     * @param amax largest magnitude of the block; for a block of zeros every candidate is the scale that it has without a search
     */
    float stored(int index, float amax);

    /** What readers multiply codes with. */
    float multiplier(float stored);

    /**
     * Multiples of the usual scale, from the largest down.
     *
     * @param usual the scale of a block by its largest magnitude, unrounded
     * @param multiples of it
     * @param type of stored scales
     */
    record Multiples(DoubleUnaryOperator usual, MseRule multiples, DType type) implements ScaleCandidates {
        @Override
        public int count() {
            return multiples.steps();
        }

        @Override
        public float stored(int index, float amax) {
            float scale = (float) usual.applyAsDouble(amax);
            float multiple = multiples.multiple(multiples.steps() - 1 - index);
            return StoredScale.round(amax == 0 ? scale : Math.max(scale * multiple, Float.MIN_VALUE), type);
        }

        @Override
        public float multiplier(float stored) {
            return stored;
        }
    }

    /**
     * Twice a power of two, itself and half of it.
     *
     * @param usual as {@link Multiples}; gives powers of two
     */
    record Powers(DoubleUnaryOperator usual, DType type) implements ScaleCandidates {
        @Override
        public int count() {
            return 3;
        }

        @Override
        public float stored(int index, float amax) {
            float scale = (float) usual.applyAsDouble(amax);
            return StoredScale.round(amax == 0 ? scale : Math.scalb(scale, 1 - index), type);
        }

        @Override
        public float multiplier(float stored) {
            return stored;
        }
    }

    /** The E4M3 numbers around the usual scale of a block below a {@link GlobalScale}: five above it, itself and eight below, half of it. */
    record Neighbours(GlobalScale global, Float8Format codes) implements ScaleCandidates {
        private static final int ABOVE = 5;
        private static final int BELOW = 8;
        private static final int LARGEST = 0x7E;

        @Override
        public int count() {
            return ABOVE + 1 + BELOW;
        }

        @Override
        public float stored(int index, float amax) {
            float usual = global.block(amax, codes.maxValue());
            if (amax == 0) {
                return usual;
            }
            int code = Float8Format.E4M3FN.encode(usual, Overflow.SATURATE);
            return Float8Format.E4M3FN.decode(Math.clamp(code + ABOVE - index, 1, LARGEST));
        }

        @Override
        public float multiplier(float stored) {
            return global.multiplier(stored);
        }
    }

    /** The scales with which the largest magnitude of a block becomes 6, or 4. */
    record FourOverSix(GlobalScale global) implements ScaleCandidates {
        /** The largest block scale of a block whose largest magnitude becomes 6: 1.5 times that is a number of E4M3, too. */
        public static final float LARGEST_BLOCK = 256;

        private static final float SIX = 6;
        private static final float FOUR = 4;

        @Override
        public int count() {
            return 2;
        }

        @Override
        public float stored(int index, float amax) {
            return global.block(amax, index == 0 ? SIX : FOUR);
        }

        @Override
        public float multiplier(float stored) {
            return global.multiplier(stored);
        }
    }
}
