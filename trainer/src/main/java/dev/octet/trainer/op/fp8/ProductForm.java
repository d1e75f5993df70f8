package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * How a product of {@link Fp8Linear} is computed.
 *
 * <p>On codes: as an FP8 unit does, up to the order of sums. Every code is exact in BF16, products are exact, sums are F32. Where one
 * scale holds for each sum the scales are applied to the sums; otherwise to the codes beforehand (hardware applies them to partial
 * sums of a block, in F32; powers of two are exact either way).
 *
 * <p>Not on codes: what the quantised operands stand for is rounded to {@code widened}, others are taken as they are, and the product is
 * one of that type: fake quantisation, and products of which one operand is quantised.
 *
 * @param left null when it is not quantised
 * @param right null when it is not quantised
 * @param onCodes only where both are quantised
 * @param widened what codes times scales are rounded to: BF16, F16 or F32
 */
public record ProductForm(
        @Nullable CodedMatrix left, @Nullable CodedMatrix right, boolean onCodes, DType widened) {
    public ProductForm {
        if (onCodes && (left == null || right == null)) {
            throw new IllegalArgumentException("a product on codes has two quantised operands");
        }
    }

    /** A product of unquantised operands. */
    public static ProductForm plain(DType type) {
        return new ProductForm(null, null, false, type);
    }
}
