package dev.octet.converter.generate;

import java.util.Arrays;
import java.util.Comparator;
import java.util.random.RandomGenerator;
import java.util.stream.IntStream;

/**
 * How the next token is chosen from its logits: divided by the temperature, cut to the most probable tokens, drawn. What is left after the
 * cuts is what transformers leaves (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, in this order).
 *
 * @param temperature what logits are divided by; 0 for the most probable token, without a draw
 * @param topK so many of the most probable tokens, and those as probable as the last of them; 0 for all
 * @param topP the most probable tokens whose probabilities together reach this, at least one; 1 for all
 */
public record Sampling(double temperature, int topK, double topP) {
    /** Always the most probable token, the first of several. */
    public static final Sampling GREEDY = new Sampling(0, 0, 1);

    public Sampling {
        if (!(temperature >= 0) || Double.isInfinite(temperature)) {
            throw new IllegalArgumentException("temperature " + temperature);
        }
        if (topK < 0) {
            throw new IllegalArgumentException("top-k " + topK);
        }
        if (!(topP > 0 && topP <= 1)) {
            throw new IllegalArgumentException("top-p " + topP);
        }
    }

    /**
     * The next token.
     *
     * @param logits one for each token of the vocabulary, all finite
     */
    int choose(float[] logits, RandomGenerator random) {
        if (temperature == 0) {
            int best = 0;
            for (int i = 1; i < logits.length; i++) {
                best = logits[i] > logits[best] ? i : best;
            }
            return best;
        }
        double[] p = probabilities(logits);
        double drawn = random.nextDouble();
        int last = 0;
        for (int i = 0; i < p.length; i++) {
            if (p[i] > 0) {
                last = i;
                drawn -= p[i];
                if (drawn < 0) {
                    return i;
                }
            }
        }
        return last; // the probabilities add up to a little less than one
    }

    /** Probabilities after the cuts; they add up to one. */
    double[] probabilities(float[] logits) {
        double[] x = new double[logits.length];
        for (int i = 0; i < x.length; i++) {
            x[i] = logits[i] / temperature;
        }
        cutToTopK(x);
        double[] p = softmax(x);
        return topP == 1 ? p : cutToTopP(p);
    }

    private void cutToTopK(double[] x) {
        if (topK == 0 || topK >= x.length) {
            return;
        }
        double[] sorted = x.clone();
        Arrays.sort(sorted);
        double least = sorted[sorted.length - topK];
        for (int i = 0; i < x.length; i++) {
            x[i] = x[i] < least ? Double.NEGATIVE_INFINITY : x[i];
        }
    }

    /** From the least probable token up, those are left out whose probabilities together stay within {@code 1 - topP}. */
    private double[] cutToTopP(double[] p) {
        int[] rising = IntStream.range(0, p.length)
                .boxed()
                .sorted(Comparator.comparingDouble(i -> p[i]))
                .mapToInt(i -> i)
                .toArray();
        double[] kept = p.clone();
        double left = 0;
        double sum = 1;
        for (int i = 0; i < rising.length - 1; i++) {
            left += p[rising[i]];
            if (left > 1 - topP) {
                break;
            }
            sum -= p[rising[i]];
            kept[rising[i]] = 0;
        }
        for (int i = 0; i < kept.length; i++) {
            kept[i] /= sum;
        }
        return kept;
    }

    private static double[] softmax(double[] x) {
        double most = Arrays.stream(x).max().orElseThrow();
        double[] p = new double[x.length];
        double sum = 0;
        for (int i = 0; i < x.length; i++) {
            p[i] = Math.exp(x[i] - most);
            sum += p[i];
        }
        for (int i = 0; i < p.length; i++) {
            p[i] /= sum;
        }
        return p;
    }
}
