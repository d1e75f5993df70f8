package dev.octet.converter.hf;

import dev.octet.formats.tensor.Tensor;
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
            Tensor own = parameters.peek(head);
            Tensor shared = parameters.peek(embedding);
            if (shared != null && own != null && !same(own, shared)) {
                throw config.malformed("tie_word_embeddings is true, but " + own.name() + " and " + shared.name()
                        + " differ in the file");
            }
            parameters.account(head);
        }
        return draft.stored(embedding, vocabulary, hidden);
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
