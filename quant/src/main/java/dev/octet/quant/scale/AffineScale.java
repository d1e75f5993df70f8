package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast.Range;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Scale and zero point of asymmetric 8-bit integers: a block's range, widened to hold zero, laid over -128 .. 127.
 *
 * @param scale the dequantisation multiplier
 * @param zeroPoint the code of zero
 */
public record AffineScale(float scale, byte zeroPoint) {
    private static final int LOWEST = Byte.MIN_VALUE;
    private static final int STEPS = Byte.MAX_VALUE - Byte.MIN_VALUE;

    /**
     * {@code scale = (largest - smallest) / 255} and {@code zeroPoint = -128 - smallest / scale}, each rounded once, ties to even; 1 and
     * -128 for a block of zeros. compressed-tensors has the same formulas in FP32, with a rounding for each operation.
     *
     * @param range of finite elements
     * @param scaleType what the scale is stored as; it is rounded up to it before the zero point is found, so that the range still fits
     */
    public static AffineScale of(Range range, DType scaleType) {
        double span = (double) range.largest() - range.smallest(); // of floats, so it can be more than a float
        float scale = span == 0 ? 1 : StoredScale.roundUp((float) (span / STEPS), scaleType);
        double zeroPoint = Math.clamp(LOWEST - range.smallest() / (double) scale, LOWEST, Byte.MAX_VALUE);
        return new AffineScale(scale, (byte) Math.rint(zeroPoint));
    }

    /**
     * Those of many blocks.
     *
     * @param scales takes an F32 for each range
     * @param zeroPoints takes an I8 for each range
     */
    public static void of(Range[] ranges, DType scaleType, MemorySegment scales, MemorySegment zeroPoints) {
        for (int i = 0; i < ranges.length; i++) {
            AffineScale affine = of(ranges[i], scaleType);
            scales.set(Tensor.F32_LE, (long) i * Float.BYTES, affine.scale);
            zeroPoints.set(ValueLayout.JAVA_BYTE, i, affine.zeroPoint);
        }
    }
}
