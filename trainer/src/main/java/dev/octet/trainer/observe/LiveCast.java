package dev.octet.trainer.observe;

import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.op.fp8.QuantizedMatrix;
import org.jspecify.annotations.Nullable;

/**
 * How a layer quantises a tensor.
 *
 * @param rowwise for the product that sums along the tensor's last axis; null where that product takes it as it is
 * @param columnwise for the product that sums along its first
 * @param quantScale the multiplier of delayed scaling; NaN without
 */
@SuppressWarnings("exports") // only the room of steps makes one
public record LiveCast(
        @Nullable CodedMatrix rowwise, @Nullable CodedMatrix columnwise, float quantScale) {
    /** A tensor that no product takes quantised. */
    public static final LiveCast NONE = new LiveCast(null, null, Float.NaN);

    /** The format of its codes; E4M3 where it has none. */
    Float8Format format(ObservedTensor tensor) {
        if (rowwise != null) {
            return rowwise.format();
        }
        if (columnwise != null) {
            return columnwise.format();
        }
        return tensor == ObservedTensor.GRADIENT ? Float8Format.E5M2 : Float8Format.E4M3FN;
    }

    /** Its codes; null when it has none. */
    public @Nullable QuantizedMatrix codes(Sample x, boolean ofColumns) {
        CodedMatrix form = ofColumns ? columnwise : rowwise;
        if (form == null) {
            return null;
        }
        if (!form.isDelayed()) {
            return QuantizedMatrix.of(x.values(), form);
        }
        return Float.isNaN(quantScale) ? null : QuantizedMatrix.delayed(x.values(), form.format(), quantScale);
    }

    /** Whether some product takes it with a delayed scale. */
    boolean isDelayed() {
        return (rowwise != null && rowwise.isDelayed()) || (columnwise != null && columnwise.isDelayed());
    }

    /** Whether some product takes it as codes. */
    boolean isQuantised() {
        return rowwise != null || columnwise != null;
    }
}
