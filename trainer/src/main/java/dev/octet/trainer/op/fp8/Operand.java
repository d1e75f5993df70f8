package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CpuTensor;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** An operand of a product on a processor, decoded: as a whole, or the rows that a part of the product reads. */
sealed interface Operand {
    /** Type of its elements. */
    DType type();

    /** Scales that the sums are yet to be multiplied by; null for none. */
    float @Nullable [] scales();

    /** All of it, as it lies in memory; until the next call. */
    MemorySegment bytes();

    /**
     * Rows {@code from .. from + count - 1} of op(A), as it lies in memory; until the next call.
     *
     * @param transposed whether rows of op(A) are columns in memory
     */
    Band band(boolean transposed, ScaledProduct.Size size, int from, int count);

    /** Rows of op(A), {@code k} long, that {@link #band} gives at a time, about. */
    long rows(int k);

    /**
     * Part of an operand.
     *
     * @param stride elements from one of its lines in memory to the next
     */
    record Band(MemorySegment bytes, long stride) {}

    /** One that lies in memory. */
    @SuppressWarnings("ArrayRecordComponent") // passed along, never compared
    record Whole(DType type, MemorySegment bytes, float @Nullable [] scales) implements Operand {
        @Override
        public Band band(boolean transposed, ScaledProduct.Size size, int from, int count) {
            long at = transposed ? from : (long) from * size.k();
            return new Band(bytes.asSlice(at * type.bits() / 8), transposed ? size.m() : size.k());
        }

        @Override
        public long rows(int k) {
            return Integer.MAX_VALUE;
        }
    }

    /**
     * One that is rounded to what its codes stand for when it is read: the gradient of a language model's logits takes more memory than all that a layer keeps.
     *
     * @param scales one, which the sums are multiplied by
     * @param quantScales the multiplier that its codes come from
     */
    @SuppressWarnings("ArrayRecordComponent")
    record Banded(
            DType type, float[] scales, MatrixCodes matrix, Float8Format format, CpuTensor x, float[] quantScales)
            implements Operand {
        @Override
        public MemorySegment bytes() {
            MemorySegment target = ScaledProduct.LEFT.room(x.count() * type.bits() / 8);
            matrix.round(x, quantScales, format, null, type, target);
            return target;
        }

        @Override
        public Band band(boolean transposed, ScaledProduct.Size size, int from, int count) {
            MemorySegment target = ScaledProduct.LEFT.room((long) count * size.k() * type.bits() / 8);
            if (transposed) {
                matrix.roundColumns(x, from, count, quantScales[0], format, type, target);
            } else {
                matrix.roundRows(x, from, count, quantScales[0], format, type, target);
            }
            return new Band(target, transposed ? count : size.k());
        }

        @Override
        public long rows(int k) {
            return ScaledProduct.DECODED / Math.max(1, k);
        }
    }
}
