package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;

/**
 * How training libraries derive from the largest magnitude what a tensor or block is <em>multiplied</em> by before the cast, its
 * {@code quantScale}; bit for bit, NaN and infinities included. The scale that belongs to it, by which codes are multiplied on the way
 * out, is {@link #scale}.
 *
 * <p>Each library has its own arithmetic (division in FP32 or FP64, what becomes of zero, how powers of two are found), so each rule
 * stands alone. For quantising models once, see {@link ScaleRule}.
 */
public sealed interface QuantScaleRule
        permits TransformerEngineScale, TransformerEngineMxScale, TorchaoScale, MsampScale, WindowedScale {
    /**
     * The multiplier for a tensor or block.
     *
     * @param amax largest magnitude, at least 0, infinite or NaN
     * @param format what it is cast to
     * @param input element type of what is quantised: F32, BF16 or F16
     */
    float quantScale(float amax, Float8Format format, DType input);

    /** The dequantisation multiplier for {@code quantScale}: its FP32 reciprocal, correctly rounded, subnormal where it has to be. */
    static float scale(float quantScale) {
        return 1 / quantScale;
    }

    /** Whether all scales are powers of two, so that a code times its scale is exact in BF16. */
    boolean isPowerOfTwo();

    /** Whether a NaN among the values makes amax NaN; otherwise it is left out of it. */
    default boolean seesNaN() {
        return false;
    }
}
