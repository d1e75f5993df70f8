package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** An operand of a product on a processor, decoded: as a whole, or the part that a part of the product reads. */
sealed interface Operand {
    /** Type of its elements. */
    DType type();

    /** Scales that the sums are yet to be multiplied by; null for none. */
    float @Nullable [] scales();

    /** What its elements are numbers of; null for one without codes. */
    @Nullable
    Float8Format format();

    /** Whether all of it lies in memory. */
    default boolean isWhole() {
        return this instanceof Whole;
    }

    /**
     * Some lines of an operand: rows of the left one, columns of the right one; until the next call.
     *
     * @param across whether these lines are columns in memory
     * @param all number of its lines
     * @param k their length
     */
    Band band(boolean across, int all, int k, int from, int count);

    /**
     * Part of an operand.
     *
     * @param stride elements from one of its rows in memory to the next
     */
    record Band(MemorySegment bytes, long stride) {}

    /** One that lies in memory. */
    @SuppressWarnings("ArrayRecordComponent") // passed along, never compared
    record Whole(
            DType type,
            MemorySegment bytes,
            float @Nullable [] scales,
            @Nullable Float8Format format) implements Operand {
        @Override
        public Band band(boolean across, int all, int k, int from, int count) {
            long at = across ? from : (long) from * k;
            return new Band(bytes.asSlice(at * type.bits() / 8), across ? all : k);
        }
    }

    /**
     * A large one of codes, decoded where it is read: the head of a language model alone would take more than all its layers.
     *
     * @param scales one, which the sums are multiplied by
     * @param place where a band lies
     */
    @SuppressWarnings("ArrayRecordComponent")
    record Coded(
            DType type, float[] scales, MatrixCodes matrix, Float8Format format, MemorySegment codes, Scratch place)
            implements Operand {
        @Override
        public Band band(boolean across, int all, int k, int from, int count) {
            MemorySegment target = place.room((long) count * k * type.bits() / 8);
            matrix.decodePart(format, codes, part(across, all, k, from, count), type, target);
            return new Band(target, across ? count : k);
        }
    }

    /**
     * A large one that is rounded to what its codes stand for where it is read: the gradient of a language model's logits.
     *
     * @param scales one, which the sums are multiplied by
     * @param quantScale the multiplier that its codes come from
     */
    @SuppressWarnings("ArrayRecordComponent")
    record Rounded(DType type, float[] scales, MatrixCodes matrix, Float8Format format, CpuTensor x, float quantScale)
            implements Operand {
        @Override
        public Band band(boolean across, int all, int k, int from, int count) {
            MemorySegment target = ScaledProduct.LEFT.room((long) count * k * type.bits() / 8);
            matrix.roundPart(x, part(across, all, k, from, count), quantScale, format, type, target);
            return new Band(target, across ? count : k);
        }
    }

    private static MatrixCodes.Part part(boolean across, int all, int k, int from, int count) {
        return across ? new MatrixCodes.Part(0, k, from, count, all) : new MatrixCodes.Part(from, count, 0, k, k);
    }
}
