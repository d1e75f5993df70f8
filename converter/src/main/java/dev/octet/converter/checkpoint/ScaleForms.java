package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.ScaleNumbers;
import java.lang.foreign.MemorySegment;

/** Converts scales between their form in a file (number type and direction) and F32 multipliers. */
final class ScaleForms {
    private ScaleForms() {}

    /** Reads {@code count} stored scales as multipliers; passes on those that are not positive and finite unchanged. */
    static void read(ScaleTensor scale, MemorySegment stored, long count, MemorySegment f32) {
        ScaleNumbers.read(scale.number(), stored, count, f32);
        if (scale.direction() == ScaleTensor.Direction.DIVISOR) {
            invert(f32, count);
        }
    }

    /**
     * Writes {@code count} multipliers in the form of {@code scale}.
     *
     * @param f32 the multipliers; if {@code scale} stores divisors, it holds the reciprocals afterwards
     * @return whether reading them again gives the same numbers
     */
    static boolean write(ScaleTensor scale, MemorySegment f32, long count, MemorySegment stored) {
        if (scale.direction() == ScaleTensor.Direction.MULTIPLIER) {
            return ScaleNumbers.write(scale.number(), f32, count, stored);
        }
        boolean exact = true;
        for (long i = 0; i < count; i++) {
            float multiplier = f32.get(Tensor.F32_LE, i * Float.BYTES);
            exact &= 1 / (1 / multiplier) == multiplier;
        }
        invert(f32, count);
        return ScaleNumbers.write(scale.number(), f32, count, stored) && exact;
    }

    /**
     * Applies the second-level scale to scales: multiplies or divides them, as readers do.
     *
     * @param stored one F32, {@code global} as it lies in the file
     * @param f32 {@code count} scales of blocks, multipliers afterwards
     */
    static void applyGlobal(ScaleTensor global, float stored, MemorySegment f32, long count) {
        switch (global.direction()) {
            case MULTIPLIER -> ScaleNumbers.multiply(f32, count, stored);
            case DIVISOR -> ScaleNumbers.divide(f32, count, stored);
        }
    }

    /** Whether readers multiply or divide by the second-level scale. */
    static GlobalScale.Direction direction(ScaleTensor global) {
        return switch (global.direction()) {
            case MULTIPLIER -> GlobalScale.Direction.MULTIPLIER;
            case DIVISOR -> GlobalScale.Direction.DIVISOR;
        };
    }

    private static void invert(MemorySegment f32, long count) {
        for (long i = 0; i < count; i++) {
            f32.set(Tensor.F32_LE, i * Float.BYTES, 1 / f32.get(Tensor.F32_LE, i * Float.BYTES));
        }
    }
}
