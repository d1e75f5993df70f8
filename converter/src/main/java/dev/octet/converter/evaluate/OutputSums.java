package dev.octet.converter.evaluate;

import dev.octet.converter.data.TokenMask;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import java.io.Serializable;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Running sums of one output. */
final class OutputSums implements Serializable {
    private static final long serialVersionUID = 1;

    private final String output;
    private final OutputDifference difference = new OutputDifference();
    private long samples;
    private double cosineSum;
    private double cosineMin = Double.POSITIVE_INFINITY;
    private boolean classLike;
    private long rows;
    private long agreeing;

    OutputSums(String output) {
        this.output = output;
    }

    /** Adds a batch of {@code size} samples; {@code mask} is null without padding. */
    void add(Tensor reference, Tensor candidate, int size, @Nullable TokenMask mask) {
        if (!reference.shape().equals(candidate.shape())) {
            throw new InvalidDataException(
                    "output '" + output + "' has shape " + reference.shape() + " in the reference and "
                            + candidate.shape() + " in the candidate",
                    "a batch of " + size + " samples",
                    "compare models that were made from the same one");
        }
        long elements = reference.shape().elementCount();
        // an output without a sample axis is compared as one vector per batch
        boolean perSample = reference.shape().rank() > 0 && reference.shape().dim(0) == size;
        int vectors = perSample ? size : 1;
        long perToken = mask == null || !perSample
                ? 0
                : mask.rowLength(reference.shape()).orElse(0L);
        classLike = isClassLike(reference);
        for (int i = 0; i < vectors; i++) {
            Cosine cosine = new Cosine();
            if (mask != null && perToken > 0) {
                for (int t = 0; t < mask.length(); t++) {
                    long row = (long) i * mask.length() + t;
                    if (mask.kept().get((int) row)) {
                        addVector(reference, candidate, row * perToken, (row + 1) * perToken, cosine);
                    }
                }
            } else {
                addVector(reference, candidate, i * (elements / vectors), (i + 1) * (elements / vectors), cosine);
            }
            samples++;
            cosineSum += cosine.value();
            cosineMin = Math.min(cosineMin, cosine.value());
        }
    }

    /** Adds the sums of other samples. */
    void plus(OutputSums more) {
        difference.plus(more.difference);
        samples += more.samples;
        cosineSum += more.cosineSum;
        cosineMin = Math.min(cosineMin, more.cosineMin);
        rows += more.rows;
        agreeing += more.agreeing;
    }

    private boolean isClassLike(Tensor value) {
        int rank = value.shape().rank();
        return rank >= 2 && value.shape().dim(-1) > 1 && (rank == 2 || isNamedLikeScores(output));
    }

    /** Whether an output is called logits, scores or probabilities. */
    static boolean isNamedLikeScores(String output) {
        String name = output.toLowerCase(Locale.ROOT);
        return name.contains("logit") || name.contains("score") || name.contains("prob");
    }

    private void addVector(Tensor reference, Tensor candidate, long from, long to, Cosine cosine) {
        difference.add(reference.bytes(), candidate.bytes(), from, to);
        cosine.add(reference.bytes(), candidate.bytes(), from, to);
        if (classLike) {
            long width = reference.shape().dim(-1);
            for (long row = from; row < to; row += width) {
                rows++;
                agreeing += top(reference, row, width) == top(candidate, row, width) ? 1 : 0;
            }
        }
    }

    private static long top(Tensor t, long from, long width) {
        long best = 0;
        float greatest = Float.NEGATIVE_INFINITY;
        for (long i = 0; i < width; i++) {
            float v = t.bytes().get(Tensor.F32_LE, (from + i) * 4);
            if (v > greatest) {
                greatest = v;
                best = i;
            }
        }
        return best;
    }

    OutputComparison result() {
        return new OutputComparison(
                output,
                samples,
                cosineSum / samples,
                cosineMin,
                difference.sqnrDb(),
                difference.maxAbs(),
                rows == 0 ? Double.NaN : (double) agreeing / rows);
    }
}
