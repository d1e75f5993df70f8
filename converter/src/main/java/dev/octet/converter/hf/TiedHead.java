package dev.octet.converter.hf;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The weight of an output layer that may be the embedding. With {@code tie_word_embeddings} transformers computes with the embedding,
 * whatever else the file holds; a file whose own output weight differs contradicts itself and is refused.
 */
final class TiedHead {
    /** Bytes compared at both ends: two different weights differ there, and equal ones need not be read whole. */
    private static final long COMPARED_BYTES = 1 << 16;

    private TiedHead() {}

    /**
     * Name of the constant [vocabulary, hidden].
     *
     * @param tied what the configuration says
     */
    static String weight(
            GraphDraft draft,
            HfConfig config,
            boolean tied,
            String head,
            String embedding,
            int vocabulary,
            int hidden) {
        CheckpointParameters parameters = draft.parameters();
        if (!tied) {
            return draft.stored(head, vocabulary, hidden);
        }
        if (parameters.has(head)) {
            Initializer own = parameters.constant(head);
            Initializer shared = parameters.constant(embedding);
            if (shared != null && own != null && !same(own, shared)) {
                throw config.malformed("tie_word_embeddings is true, but " + own.name() + " and " + shared.name()
                        + " differ in the file");
            }
            parameters.account(head);
        }
        return draft.stored(embedding, vocabulary, hidden);
    }

    private static boolean same(Initializer a, Initializer b) {
        if (a.data() instanceof Initializer.Dense x && b.data() instanceof Initializer.Dense y) {
            return same(x.tensor(), y.tensor());
        }
        TensorSpec is = a.spec().orElseThrow();
        if (!is.shape().equals(b.spec().orElseThrow().shape())) {
            return false;
        }
        long last = is.shape().dim(0) - 1;
        return last < 0 || (row(a, 0).mismatch(row(b, 0)) < 0 && row(a, last).mismatch(row(b, last)) < 0);
    }

    /** A row of a matrix as F32. */
    private static MemorySegment row(Initializer matrix, long row) {
        long cols = matrix.spec().orElseThrow().shape().dim(1);
        MemorySegment floats = Arena.ofAuto().allocate(Math.max(1, cols) * Float.BYTES, Float.BYTES);
        switch (matrix.data()) {
            case Initializer.Coded c -> c.tensor().read(row, row + 1, floats.asSlice(0, cols * Float.BYTES));
            case Initializer.Dense d -> {
                for (long i = 0; i < cols; i++) {
                    float value = Floats.get(d.tensor().dtype(), d.tensor().bytes(), row * cols + i);
                    floats.set(Tensor.F32_LE, i * Float.BYTES, value);
                }
            }
            case Initializer.Strings _, Initializer.Sparse _, Initializer.Opaque _ ->
                throw new IllegalArgumentException(matrix.name() + " has no numbers");
        }
        return floats;
    }

    private static boolean same(Tensor a, Tensor b) {
        if (a.dtype() != b.dtype() || !a.shape().equals(b.shape())) {
            return false;
        }
        long bytes = a.bytes().byteSize();
        long part = Math.min(COMPARED_BYTES, bytes);
        return equal(a.bytes(), b.bytes(), 0, part) && equal(a.bytes(), b.bytes(), bytes - part, bytes);
    }

    private static boolean equal(MemorySegment a, MemorySegment b, long from, long to) {
        return MemorySegment.mismatch(a, from, to, b, from, to) < 0;
    }
}
