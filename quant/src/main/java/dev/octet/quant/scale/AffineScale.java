package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Scale and zero point of asymmetric integers: a block's range, widened to hold zero, laid over all codes.
 *
 * @param scale the dequantisation multiplier
 * @param zeroPoint the code of zero
 */
public record AffineScale(float scale, byte zeroPoint) {
    /**
     * {@code scale = (largest - smallest) / steps} and {@code zeroPoint = lowest - smallest / scale}, each rounded once, ties to even, where
     * integers of 8 bits have 255 steps from -128 on and those of 4 bits 15 from -8 on; 1 and the lowest code for a block of zeros. compressed-tensors has the same formulas in FP32, with a rounding for each operation.
     *
     * @param range of finite elements
     * @param integers integers with a zero point
     * @param scaleType what the scale is stored as; it is rounded up to it before the zero point is found, so that the range still fits
     */
    public static AffineScale of(Range range, QuantType integers, DType scaleType) {
        return of(range, new CodeGrid.Integers(integers.lowest(), integers.highest()), scaleType);
    }

    /**
     * The same for integers of any width.
     *
     * @param integers signed, so that a byte has them
     */
    public static AffineScale of(Range range, CodeGrid.Integers integers, DType scaleType) {
        double span = (double) range.largest() - range.smallest(); // of floats, so it can be more than a float
        int lowest = integers.least();
        int highest = integers.largest();
        float scale = span == 0 ? 1 : StoredScale.roundUp((float) (span / (highest - lowest)), scaleType);
        double zeroPoint = Math.clamp(lowest - range.smallest() / (double) scale, lowest, highest);
        return new AffineScale(scale, (byte) Math.rint(zeroPoint));
    }

    /**
     * Those of many blocks.
     *
     * @param scales takes an F32 for each range
     * @param zeroPoints takes an I8 for each range
     */
    public static void of(
            Range[] ranges, QuantType integers, DType scaleType, MemorySegment scales, MemorySegment zeroPoints) {
        for (int i = 0; i < ranges.length; i++) {
            AffineScale affine = of(ranges[i], integers, scaleType);
            scales.set(Tensor.F32_LE, (long) i * Float.BYTES, affine.scale);
            zeroPoints.set(ValueLayout.JAVA_BYTE, i, affine.zeroPoint);
        }
    }
}
