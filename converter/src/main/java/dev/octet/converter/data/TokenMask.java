package dev.octet.converter.data;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.Optional;

/**
 * Separates the real tokens of a batch from padding.
 *
 * @param batch sequences
 * @param length tokens of each, including padding
 * @param kept bit {@code sequence * length + position} is set for a real token; callers must not change it
 */
public record TokenMask(int batch, int length, BitSet kept) {
    private static final MemorySegment ZERO = MemorySegment.ofArray(new byte[16]);

    /** The mask of an {@code attention_mask} of shape [batch, length]: nonzero marks a real token. Empty for other shapes. */
    static Optional<TokenMask> of(Tensor mask) {
        if (mask.shape().rank() != 2) {
            return Optional.empty();
        }
        int n = Math.toIntExact(mask.shape().elementCount());
        BitSet kept = new BitSet(n);
        int width = mask.dtype().bits() / 8;
        for (int i = 0; i < n; i++) {
            // 0 has all bits clear in every type; -0.0 is unexpected, but marks padding too
            boolean zero = mask.dtype() == DType.F32
                    ? mask.bytes().get(Tensor.F32_LE, i * 4L) == 0
                    : mask.bytes().asSlice((long) i * width, width).mismatch(ZERO.asSlice(0, width)) < 0;
            kept.set(i, !zero);
        }
        return Optional.of(
                new TokenMask((int) mask.shape().dim(0), (int) mask.shape().dim(1), kept));
    }

    /** Whether there is no padding. */
    public boolean keepsAll() {
        return kept.cardinality() == batch * length;
    }

    /**
     * Elements of each token in a value of shape [batch, length, x, ...] or [batch * length, x, ...] (exporters flatten); empty when the
     * value has no token axis. A value of shape [batch, length] counts as having none, because its second axis may also be classes or
     * features.
     */
    public Optional<Long> rowLength(Shape value) {
        long tokens = (long) batch * length;
        boolean perToken = (value.rank() >= 3 && value.dim(0) == batch && value.dim(1) == length)
                || (value.rank() >= 2 && value.dim(0) == tokens);
        return perToken && tokens > 0 ? Optional.of(value.elementCount() / tokens) : Optional.empty();
    }

    /** Whether a value has the shape [batch, heads, length, size]. */
    public boolean fitsHeads(Shape value) {
        return value.rank() == 4 && value.dim(0) == batch && value.dim(2) == length;
    }

    /** The kept rows of a value of shape [batch, heads, length, size], in which each head has all tokens. */
    public BitSet ofHeads(int heads) {
        BitSet rows = new BitSet(batch * heads * length);
        for (int token = kept.nextSetBit(0); token >= 0; token = kept.nextSetBit(token + 1)) {
            int first = token / length * heads * length + token % length;
            for (int head = 0; head < heads; head++) {
                rows.set(first + head * length);
            }
        }
        return rows;
    }
}
