package dev.octet.converter.sensitivity;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.TokenMask;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.work.Workers;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Running sums of one variant's outputs against the reference's, sample by sample, in F64. */
final class LossSums {
    /** The input that says which token comes next. */
    static final String IDS = "input_ids";

    private final @Nullable String logits;
    private final boolean predicts;
    private final int threads;
    private final Map<String, double[]> cosines = new LinkedHashMap<>();
    private double divergence;
    private long rows;
    private double squares;
    private double sum;
    private long losses;
    private long tokens;
    private double lossOfReference;
    private double lossOfVariant;

    /**
     * @param logits the output with logits; null when there is none
     * @param predicts whether the logits of a token are of the token that comes next
     */
    LossSums(@Nullable String logits, boolean predicts, int threads) {
        this.logits = logits;
        this.predicts = predicts;
        this.threads = threads;
    }

    /** Sums of one sample. */
    private static final class Sample {
        private double xy;
        private double xx;
        private double yy;
        private double divergence;
        private long rows;
        private long tokens;
        private double reference;
        private double variant;
    }

    /**
     * Adds a batch.
     *
     * @param reference F32 by output
     * @param variant F32 by output, of the same shapes
     */
    void add(Batch batch, Map<String, Tensor> reference, Map<String, Tensor> variant) {
        TokenMask mask = batch.mask().orElse(null);
        double[] loss = new double[batch.size()];
        for (Map.Entry<String, Tensor> output : reference.entrySet()) {
            Tensor x = output.getValue();
            Tensor y = variant.get(output.getKey());
            if (y == null || !x.shape().equals(y.shape())) {
                throw new InvalidDataException(
                        "output '" + output.getKey() + "' changes its shape with the precision of a Linear",
                        "a batch of " + batch.size() + " samples",
                        "leave such outputs out of the model");
            }
            boolean scores = output.getKey().equals(logits);
            boolean each = x.shape().rank() > 0 && x.shape().dim(0) == batch.size();
            int vectors = each ? batch.size() : 1;
            Sample[] found = new Sample[vectors];
            Tensor ids = scores && predicts ? batch.tensors().get(IDS) : null;
            Workers.run(vectors, threads, i -> found[i] = sample(x, y, i, vectors, each ? mask : null, scores, ids));
            double[] cosine = cosines.computeIfAbsent(output.getKey(), _ -> new double[2]);
            for (int i = 0; i < vectors; i++) {
                add(found[i], cosine, scores, loss, i);
            }
        }
        for (double one : loss) {
            sum += one;
            squares += one * one;
            losses++;
        }
    }

    private void add(Sample s, double[] cosine, boolean scores, double[] loss, int sample) {
        double value = s.xx == 0 && s.yy == 0
                ? 1
                : s.xx == 0 || s.yy == 0 ? 0 : Math.min(1, s.xy / Math.sqrt(s.xx) / Math.sqrt(s.yy));
        cosine[0] += value;
        cosine[1]++;
        if (scores) {
            divergence += s.divergence;
            rows += s.rows;
            tokens += s.tokens;
            lossOfReference += s.reference;
            lossOfVariant += s.variant;
            loss[sample] = s.rows == 0 ? 0 : s.divergence / s.rows;
        } else if (logits == null) {
            loss[sample] = Math.max(loss[sample], 1 - value);
        }
    }

    private static Sample sample(
            Tensor x, Tensor y, int i, int vectors, @Nullable TokenMask mask, boolean scores, @Nullable Tensor ids) {
        Sample s = new Sample();
        long elements = x.shape().elementCount() / vectors;
        long perToken = mask == null ? 0 : mask.rowLength(x.shape()).orElse(0L);
        long width = Math.max(1, x.shape().rank() == 0 ? 1 : x.shape().dim(-1));
        if (mask == null || perToken == 0) {
            long from = i * elements;
            s = addRows(s, x, y, from, from + elements, scores ? width : 0);
            if (scores && ids != null && mask == null && isTokenwise(x.shape(), ids.shape())) {
                predictions(s, x, y, i, ids, null);
            }
            return s;
        }
        for (int t = 0; t < mask.length(); t++) {
            long row = (long) i * mask.length() + t;
            if (mask.kept().get((int) row)) {
                s = addRows(s, x, y, row * perToken, (row + 1) * perToken, scores ? width : 0);
            }
        }
        if (scores && ids != null && isTokenwise(x.shape(), ids.shape())) {
            predictions(s, x, y, i, ids, mask);
        }
        return s;
    }

    static boolean isTokenwise(Shape logits, Shape ids) {
        return logits.rank() == 3 && ids.rank() == 2 && logits.dim(0) == ids.dim(0) && logits.dim(1) == ids.dim(1);
    }

    /** @param width elements of a distribution; 0 where the elements are not logits */
    private static Sample addRows(Sample s, Tensor x, Tensor y, long from, long to, long width) {
        MemorySegment a = x.bytes();
        MemorySegment b = y.bytes();
        for (long i = from; i < to; i++) {
            double p = a.get(Tensor.F32_LE, i * Float.BYTES);
            double q = b.get(Tensor.F32_LE, i * Float.BYTES);
            s.xy += p * q;
            s.xx += p * p;
            s.yy += q * q;
        }
        for (long row = from; width > 0 && row < to; row += width) {
            s.divergence += divergence(a, b, row, width);
            s.rows++;
        }
        return s;
    }

    /** {@code sum p (log p - log q)} of two rows of logits, at least 0. */
    private static double divergence(MemorySegment a, MemorySegment b, long from, long width) {
        double mostA = greatest(a, from, width);
        double mostB = greatest(b, from, width);
        double sumA = 0;
        double sumB = 0;
        double weighted = 0;
        for (long i = from; i < from + width; i++) {
            double p = a.get(Tensor.F32_LE, i * Float.BYTES) - mostA;
            double q = b.get(Tensor.F32_LE, i * Float.BYTES) - mostB;
            double e = Math.exp(p);
            sumA += e;
            sumB += Math.exp(q);
            weighted += e == 0 ? 0 : e * (p - q);
        }
        return Math.max(0, weighted / sumA - Math.log(sumA) + Math.log(sumB));
    }

    private static double greatest(MemorySegment logits, long from, long width) {
        double greatest = Double.NEGATIVE_INFINITY;
        for (long i = from; i < from + width; i++) {
            greatest = Math.max(greatest, logits.get(Tensor.F32_LE, i * Float.BYTES));
        }
        return greatest;
    }

    /** Losses on the next tokens, as {@code octet evaluate} counts them: neither a token nor its predecessor is padding. */
    private static void predictions(Sample s, Tensor x, Tensor y, int i, Tensor ids, @Nullable TokenMask mask) {
        long length = ids.shape().dim(1);
        long width = x.shape().dim(2);
        for (int t = 0; t + 1 < length; t++) {
            int at = (int) (i * length + t);
            if (mask != null && !(mask.kept().get(at) && mask.kept().get(at + 1))) {
                continue;
            }
            long next = ids.dtype() == DType.I32
                    ? ids.bytes().get(Tensor.I32_LE, (at + 1L) * Integer.BYTES)
                    : ids.bytes().get(Tensor.I64_LE, (at + 1L) * Long.BYTES);
            if (next >= 0 && next < width) {
                s.tokens++;
                s.reference += loss(x.bytes(), at * width, width, next);
                s.variant += loss(y.bytes(), at * width, width, next);
            }
        }
    }

    private static double loss(MemorySegment logits, long from, long width, long next) {
        double most = greatest(logits, from, width);
        double sum = 0;
        for (long i = from; i < from + width; i++) {
            sum += Math.exp(logits.get(Tensor.F32_LE, i * Float.BYTES) - most);
        }
        return Math.log(sum) - (logits.get(Tensor.F32_LE, (from + next) * Float.BYTES) - most);
    }

    /** Perplexity of the reference; NaN without predictions. */
    double perplexity() {
        return tokens == 0 ? Double.NaN : Math.exp(lossOfReference / tokens);
    }

    OutputLoss result() {
        double worst = 0;
        for (double[] cosine : cosines.values()) {
            double loss = 1 - cosine[0] / Math.max(1, cosine[1]);
            worst = Double.isNaN(loss) || loss > worst ? loss : worst; // a NaN stays
        }
        double mean = losses == 0 ? 0 : sum / losses;
        double variance = losses < 2 ? Double.NaN : Math.max(0, (squares - losses * mean * mean) / (losses - 1));
        return new OutputLoss(
                logits == null ? Double.NaN : divergence / Math.max(1, rows),
                worst,
                tokens == 0 ? Double.NaN : Math.exp((lossOfVariant - lossOfReference) / tokens) - 1,
                Math.sqrt(variance / Math.max(1, losses)));
    }
}
