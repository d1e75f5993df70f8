package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;

/**
 * The one F32 above the E4M3 block scales of a tensor, NVFP4's second level. The scale of a block is {@code block * value} (ModelOpt's
 * {@code weight_scale_2}) or {@code block / value} (compressed-tensors' {@code weight_global_scale}), in FP32; the two round differently, so
 * values are quantised with the product or quotient that the reader of the checkpoint computes.
 *
 * @param value positive, finite and normal
 * @param direction whether block scales are multiplied with it or divided by it
 */
public record GlobalScale(float value, Direction direction) {
    /** What a reader does with it. */
    public enum Direction {
        /** Block scales are multiplied with it. */
        MULTIPLIER,
        /** Block scales are divided by it. */
        DIVISOR
    }

    private static final float LARGEST_BLOCK = Float8Format.E4M3FN.maxValue();
    private static final float SMALLEST_BLOCK = Float8Format.E4M3FN.minPositive();

    /** @throws IllegalArgumentException when the value is not positive, finite and normal */
    public GlobalScale {
        if (!(value >= Float.MIN_NORMAL && value < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("global scale " + value + " is not positive, finite and normal");
        }
    }

    /**
     * The one with which the block of the largest magnitude has the largest E4M3 number as its scale; 1 for zeros.
     *
     * @param amax largest magnitude of the tensor, finite and at least 0
     * @param format of the codes
     */
    public static GlobalScale of(float amax, Float8Format format, Direction direction) {
        return of(amax, format, direction, LARGEST_BLOCK);
    }

    /**
     * The one with which the block of the largest magnitude has the scale {@code block}; 1 for zeros.
     *
     * @param amax largest magnitude of the tensor, finite and at least 0
     * @param format of the codes
     * @param block an E4M3 number: 448, the largest, or less where scales of blocks may become larger than usual
     */
    public static GlobalScale of(float amax, Float8Format format, Direction direction, float block) {
        if (!(amax >= 0 && amax < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("amax " + amax + " has no scale");
        }
        float largest = block * format.maxValue();
        float value = amax == 0
                ? 1
                : switch (direction) {
                    case MULTIPLIER -> amax / largest;
                    case DIVISOR -> largest / amax;
                };
        return new GlobalScale(Math.clamp(value, Float.MIN_NORMAL, Float.MAX_VALUE), direction);
    }

    /**
     * Block scales for largest magnitudes: {@code amax / max} without the global scale, rounded to E4M3, at least 2^-9; 1 for a block of
     * zeros, as ModelOpt has it.
     *
     * @param amax {@code count} F32, the blocks' largest magnitudes, finite and at least 0; becomes the scales of the blocks as readers
     *     compute them, by which to quantise
     * @param format of the codes
     * @param stored takes {@code count} E4M3 codes
     */
    public void blocks(MemorySegment amax, long count, Float8Format format, MemorySegment stored) {
        float max = format.maxValue();
        for (long i = 0; i < count; i++) {
            long at = i * Float.BYTES;
            amax.set(Tensor.F32_LE, at, unrounded(amax.get(Tensor.F32_LE, at), max));
        }
        ScaleNumbers.write(DType.F8_E4M3FN, amax, count, stored);
        read(stored, count, amax);
    }

    private float unrounded(float magnitude, float largest) {
        float block = switch (direction) {
            case MULTIPLIER -> magnitude / largest / value;
            case DIVISOR -> magnitude / largest * value;
        };
        return magnitude == 0 ? 1 : Math.clamp(block, SMALLEST_BLOCK, LARGEST_BLOCK);
    }

    /**
     * The stored scale of a block, as {@link #blocks} has it.
     *
     * @param amax largest magnitude of the block, finite and at least 0
     * @param largest what the magnitude becomes: the largest number of the codes, or less
     * @return an E4M3 number
     */
    public float block(float amax, float largest) {
        Float8Format e4m3 = Float8Format.E4M3FN;
        return e4m3.decode(e4m3.encode(unrounded(amax, largest), Overflow.SATURATE));
    }

    /** What a reader makes of the scale of a block. */
    public float multiplier(float block) {
        return switch (direction) {
            case MULTIPLIER -> block * value;
            case DIVISOR -> block / value;
        };
    }

    /**
     * The scales of blocks as readers compute them.
     *
     * @param stored {@code count} E4M3 codes
     * @param f32 takes {@code count} F32 multipliers
     */
    public void read(MemorySegment stored, long count, MemorySegment f32) {
        ScaleNumbers.read(DType.F8_E4M3FN, stored, count, f32);
        switch (direction) {
            case MULTIPLIER -> ScaleNumbers.multiply(f32, count, value);
            case DIVISOR -> ScaleNumbers.divide(f32, count, value);
        }
    }
}
