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
 * @param accumulation how codes add up, where one scale holds for each sum and an FP8 unit would compute the product
 */
public record ProductForm(
        @Nullable CodedMatrix left,
        @Nullable CodedMatrix right,
        boolean onCodes,
        DType widened,
        Accumulation accumulation) {
    /** A product with sums in F32. */
    public ProductForm(@Nullable CodedMatrix left, @Nullable CodedMatrix right, boolean onCodes, DType widened) {
        this(left, right, onCodes, widened, Accumulation.F32);
    }

    /** A product whose sums are those of an FP8 unit. */
    public ProductForm with(Accumulation other) {
        return new ProductForm(left, right, onCodes, widened, other);
    }

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
