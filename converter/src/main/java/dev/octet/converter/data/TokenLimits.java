package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.util.OptionalLong;

/**
 * The limits of a model's tokens.
 *
 * @param vocabulary number of tokens in the vocabulary; empty if unknown
 * @param positions most tokens of a sequence; empty if unknown
 */
public record TokenLimits(OptionalLong vocabulary, OptionalLong positions) {
    private static final String IDS = "input_ids";
    private static final int BATCH = 64;

    /**
     * Checks all samples before a long run would fail on one of them.
     *
     * @throws InvalidDataException when a token is not in the vocabulary, or a sequence is too long; the message has both numbers
     * @throws IOException when the data cannot be read
     */
    public void check(Dataset data) throws IOException {
        for (int first = 0; first < data.count(); first += BATCH) {
            Batch batch = data.batch(first, Math.min(BATCH, data.count() - first));
            Tensor ids = batch.tensors().get(IDS);
            if (ids == null || ids.shape().rank() != 2 || (ids.dtype() != DType.I64 && ids.dtype() != DType.I32)) {
                return;
            }
            checkLength(batch, ids, data);
            checkTokens(batch, ids, data);
        }
    }

    private void checkLength(Batch batch, Tensor ids, Dataset data) {
        long length = ids.shape().dim(1);
        if (positions.isPresent() && length > positions.getAsLong()) {
            throw new InvalidDataException(
                    "a sequence has " + length + " tokens, the model has " + positions.getAsLong() + " positions",
                    data.name() + ", samples " + batch.first() + " to " + (batch.first() + batch.size() - 1),
                    "cut texts with --max-length " + positions.getAsLong());
        }
    }

    private void checkTokens(Batch batch, Tensor ids, Dataset data) {
        if (vocabulary.isEmpty()) {
            return;
        }
        long length = ids.shape().dim(1);
        for (long i = 0; i < ids.shape().elementCount(); i++) {
            long token = ids.dtype() == DType.I64
                    ? ids.bytes().get(Tensor.I64_LE, i * Long.BYTES)
                    : ids.bytes().get(Tensor.I32_LE, i * Integer.BYTES);
            if (token < 0 || token >= vocabulary.getAsLong()) {
                throw new InvalidDataException(
                        "token " + token + " is outside the model's vocabulary of " + vocabulary.getAsLong(),
                        data.name() + ", sample " + (batch.first() + i / length) + ", position " + i % length,
                        "make the tokens with the tokenizer that belongs to the model");
            }
        }
    }
}
