package dev.octet.converter.evaluate;

import dev.octet.converter.data.TokenMask;
import dev.octet.formats.tensor.Tensor;
import java.io.Serializable;
import java.util.ArrayList;

/** Sentence embeddings of both models for all samples, (samples x size) numbers each: the only part of an evaluation that grows. */
final class Embeddings implements Serializable {
    private static final long serialVersionUID = 1;

    /** Most samples that are paired: half a million pairs, ranked in a second. */
    static final int MAX_PAIRED = 1000;

    /** Longer vectors are not embeddings but scores over a vocabulary. */
    static final long MAX_SIZE = 8192;

    private final String output;
    private final int size;
    private final ArrayList<float[]> reference = new ArrayList<>();
    private final ArrayList<float[]> candidate = new ArrayList<>();

    Embeddings(String output, int size) {
        this.output = output;
        this.size = size;
    }

    /** The same output, of no sample yet. */
    Embeddings none() {
        return new Embeddings(output, size);
    }

    String output() {
        return output;
    }

    /** Whether a value has the form of token embeddings. */
    static boolean fits(Tensor value, TokenMask mask) {
        return value.shape().rank() == 3
                && value.shape().dim(0) == mask.batch()
                && value.shape().dim(1) == mask.length()
                && value.shape().dim(2) <= MAX_SIZE;
    }

    /** Adds a batch of token embeddings [batch, length, size] of both models. */
    void add(Tensor tokensOfReference, Tensor tokensOfCandidate, TokenMask mask) {
        for (int i = 0; i < mask.batch(); i++) {
            reference.add(pooled(tokensOfReference, mask, i));
            candidate.add(pooled(tokensOfCandidate, mask, i));
        }
    }

    /** Adds the embeddings of the samples that follow. */
    void plus(Embeddings more) {
        reference.addAll(more.reference);
        candidate.addAll(more.candidate);
    }

    /** Mean over real tokens, normalised to length 1; zeros for a text without tokens. */
    private float[] pooled(Tensor tokens, TokenMask mask, int sample) {
        double[] sum = new double[size];
        for (int t = 0; t < mask.length(); t++) {
            int row = sample * mask.length() + t;
            if (mask.kept().get(row)) {
                for (int i = 0; i < size; i++) {
                    sum[i] += tokens.bytes().get(Tensor.F32_LE, ((long) row * size + i) * 4);
                }
            }
        }
        double norm = 0;
        for (double s : sum) {
            norm += s * s;
        }
        norm = norm == 0 ? 1 : Math.sqrt(norm);
        float[] unit = new float[size];
        for (int i = 0; i < size; i++) {
            unit[i] = (float) (sum[i] / norm);
        }
        return unit;
    }

    EmbeddingComparison compare() {
        int n = reference.size();
        double sum = 0;
        double min = Double.POSITIVE_INFINITY;
        for (int i = 0; i < n; i++) {
            double cosine = cosine(reference.get(i), candidate.get(i));
            sum += cosine;
            min = Math.min(min, cosine);
        }
        int paired = Math.min(n, MAX_PAIRED);
        double[] inReference = new double[paired * (paired - 1) / 2];
        double[] inCandidate = new double[inReference.length];
        double maxDifference = 0;
        int p = 0;
        for (int i = 0; i < paired; i++) {
            for (int j = 0; j < i; j++) {
                int a = (int) ((long) i * n / paired);
                int b = (int) ((long) j * n / paired);
                inReference[p] = dot(reference.get(a), reference.get(b));
                inCandidate[p] = dot(candidate.get(a), candidate.get(b));
                maxDifference = Math.max(maxDifference, Math.abs(inReference[p] - inCandidate[p]));
                p++;
            }
        }
        double spearman = RankCorrelation.spearman(inReference, inCandidate);
        return new EmbeddingComparison(output, size, n, sum / n, min, spearman, maxDifference);
    }

    /** Divides by the lengths again, because rounding to F32 leaves lengths of 1 + 1e-8 and cosines would exceed 1. */
    private static double cosine(float[] x, float[] y) {
        double xx = dot(x, x);
        double yy = dot(y, y);
        return xx == 0 && yy == 0 ? 1 : xx == 0 || yy == 0 ? 0 : Math.min(1, dot(x, y) / Math.sqrt(xx * yy));
    }

    private static double dot(float[] x, float[] y) {
        double sum = 0;
        for (int i = 0; i < x.length; i++) {
            sum += (double) x[i] * y[i];
        }
        return sum;
    }
}
