package dev.octet.converter.evaluate;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.TokenMask;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.Serializable;
import java.util.Optional;

/**
 * Sums the losses of two models on the next tokens over batches, in F64. Each token counts once, so that long texts have more weight; a
 * token counts if neither it nor its predecessor is padding.
 */
final class NextTokens implements Serializable {
    private static final long serialVersionUID = 1;

    /** The output of causal language models, [batch, sequence, vocabulary]. */
    static final String LOGITS = "logits";

    private static final String IDS = "input_ids";

    private long width;
    private long tokens;
    private double reference;
    private double candidate;

    /** Tokens of each text of a batch, including padding; 0 when the batch has no tokens. */
    static long length(Batch batch) {
        Tensor ids = batch.tensors().get(IDS);
        return ids == null || ids.shape().rank() != 2 ? 0 : ids.shape().dim(1);
    }

    /** Adds the losses of other samples. */
    void plus(NextTokens more) {
        tokens += more.tokens;
        reference += more.reference;
        candidate += more.candidate;
    }

    /** Bytes of the logits of one token; 0 before the first batch. */
    long tokenBytes() {
        return width * Float.BYTES;
    }

    /**
     * Adds a batch.
     *
     * @param a the reference's logits, F32 [batch, sequence, vocabulary]
     * @param b the candidate's
     * @throws InvalidDataException when the data have no tokens, the logits do not fit them, or a token is not in the vocabulary
     */
    void add(Batch batch, Tensor a, Tensor b) {
        Tensor ids = batch.tensors().get(IDS);
        if (ids == null || ids.shape().rank() != 2) {
            throw new InvalidDataException(
                    "perplexity needs tokens, but the data have "
                            + batch.tensors().keySet(),
                    "input '" + IDS + "', [batch, sequence]",
                    "give texts as .jsonl, or an array " + IDS + " in an .npz");
        }
        requireLogits(a, ids);
        requireLogits(b, ids);
        width = a.shape().dim(2);
        Optional<TokenMask> mask = batch.mask();
        int length = Math.toIntExact(ids.shape().dim(1));
        for (int row = 0; row < batch.size(); row++) {
            for (int t = 0; t + 1 < length; t++) {
                int at = row * length + t;
                boolean real =
                        mask.map(m -> m.kept().get(at) && m.kept().get(at + 1)).orElse(true);
                if (real) {
                    long next = id(ids, at + 1);
                    tokens++;
                    reference += loss(a, at, next);
                    candidate += loss(b, at, next);
                }
            }
        }
    }

    private static void requireLogits(Tensor logits, Tensor ids) {
        boolean fits = logits.shape().rank() == 3
                && logits.shape().dim(0) == ids.shape().dim(0)
                && logits.shape().dim(1) == ids.shape().dim(1);
        if (!fits) {
            throw new InvalidDataException(
                    "the output has shape " + logits.shape() + ", the tokens have shape " + ids.shape(),
                    "output '" + LOGITS + "'",
                    "give causal language models, whose logits are [batch, sequence, vocabulary]");
        }
    }

    private static long id(Tensor ids, long at) {
        return ids.dtype() == DType.I32
                ? ids.bytes().get(Tensor.I32_LE, at * Integer.BYTES)
                : ids.bytes().get(Tensor.I64_LE, at * Long.BYTES);
    }

    /** Negative logarithm of softmax, with the largest logit subtracted first. */
    private static double loss(Tensor logits, long row, long next) {
        long width = logits.shape().dim(2);
        if (next < 0 || next >= width) {
            throw new InvalidDataException(
                    "token " + next + " is not in the model's vocabulary of " + width,
                    "input '" + IDS + "'",
                    "give the tokenizer that belongs to the model");
        }
        long from = row * width;
        double greatest = Double.NEGATIVE_INFINITY;
        for (long i = 0; i < width; i++) {
            greatest = Math.max(greatest, at(logits, from + i));
        }
        double sum = 0;
        for (long i = 0; i < width; i++) {
            sum += Math.exp(at(logits, from + i) - greatest);
        }
        return Math.log(sum) - (at(logits, from + next) - greatest);
    }

    private static double at(Tensor t, long i) {
        return t.bytes().get(Tensor.F32_LE, i * Float.BYTES);
    }

    /**
     * The means.
     *
     * @throws InvalidDataException when no text had two tokens
     */
    PerplexityComparison result(String data) {
        if (tokens == 0) {
            throw new InvalidDataException(
                    "no text has two tokens, so there is no token to predict",
                    data,
                    "give longer texts, or a larger --max-length");
        }
        return PerplexityComparison.of(Perplexity.of(tokens, reference), Perplexity.of(tokens, candidate));
    }
}
