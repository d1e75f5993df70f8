package dev.octet.trainer.op.attention;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/**
 * Query by query: with p = softmax(s), s = scale·q·kᵀ + mask and y = p·v,
 * dv = pᵀ·dy, dp = dy·vᵀ, ds = p ⊙ (dp - sum(dp ⊙ p)), dq = scale·ds·k, dk = scale·dsᵀ·q, dmask = ds.
 */
final class AttentionReference implements ReferenceKernel<Attention> {
    /** What is done with one query. */
    private interface Query {
        void accept(int b, int h, int i);
    }

    private static void forEach(Attention op, Query query) {
        for (int b = 0; b < op.batch(); b++) {
            for (int h = 0; h < op.heads(); h++) {
                for (int i = 0; i < op.queries(); i++) {
                    query.accept(b, h, i);
                }
            }
        }
    }

    @Override
    public void forward(Attention op, Frame<double[]> frame) {
        double[] v = frame.input(2);
        forEach(op, (b, h, i) -> {
            double[] p = scores(op, frame, b, h, i);
            frame.output(1)[(b * op.heads() + h) * op.queries() + i] = softmax(p);
            int y = op.startY(b, h) + i * op.strideY();
            for (int d = 0; d < op.valueSize(); d++) {
                double sum = 0;
                for (int j = 0; j < op.keys(); j++) {
                    sum += p[j] * v[op.startV(b, h / op.group()) + j * op.strideV() + d];
                }
                frame.output(0)[y + d] = sum;
            }
        });
    }

    /** -infinity where the query must not look. */
    private static double[] scores(Attention op, Frame<double[]> frame, int b, int h, int i) {
        double[] q = frame.input(0);
        double[] k = frame.input(1);
        double[] s = new double[op.keys()];
        for (int j = 0; j < op.keys(); j++) {
            double dot = 0;
            for (int d = 0; d < op.size(); d++) {
                dot += q[op.startQ(b, h) + i * op.strideQ() + d]
                        * k[op.startK(b, h / op.group()) + j * op.strideK() + d];
            }
            s[j] = op.causal() && j > i ? Double.NEGATIVE_INFINITY : op.scale() * dot + mask(op, frame, b, h, i, j);
        }
        return s;
    }

    private static double mask(Attention op, Frame<double[]> frame, int b, int h, int i, int j) {
        if (op.mask() == null) {
            return 0;
        }
        double m = frame.input(3)[op.startMask(b, h, i) + j * op.maskStep()];
        return op.mask().dtype() == DType.BOOL ? (m == 0 ? Double.NEGATIVE_INFINITY : 0) : m;
    }

    /** Scores to probabilities; returns the logarithm of the sum of exponentials. */
    private static double softmax(double[] s) {
        double max = Double.NEGATIVE_INFINITY;
        for (double x : s) {
            max = Math.max(max, x);
        }
        double sum = 0;
        for (int j = 0; j < s.length; j++) {
            s[j] = max == Double.NEGATIVE_INFINITY ? 0 : Math.exp(s[j] - max);
            sum += s[j];
        }
        for (int j = 0; j < s.length; j++) {
            s[j] /= sum == 0 ? 1 : sum;
        }
        return max + Math.log(sum);
    }

    @Override
    public void backward(Attention op, Frame<double[]> frame) {
        double[] v = frame.input(2);
        double[] dy = frame.upstream(0);
        forEach(op, (b, h, i) -> {
            double[] p = scores(op, frame, b, h, i);
            softmax(p);
            double[] ds = new double[op.keys()];
            double dot = 0;
            for (int j = 0; j < op.keys(); j++) {
                for (int d = 0; d < op.valueSize(); d++) {
                    double up = dy[op.startY(b, h) + i * op.strideY() + d];
                    int at = op.startV(b, h / op.group()) + j * op.strideV() + d;
                    ds[j] += up * v[at];
                    if (frame.wantsGradient(2)) {
                        frame.gradient(2)[at] += p[j] * up;
                    }
                }
                dot += ds[j] * p[j];
            }
            for (int j = 0; j < op.keys(); j++) {
                ds[j] = p[j] * (ds[j] - dot);
            }
            scoreGradients(op, frame, b, h, i, ds);
        });
    }

    private static void scoreGradients(Attention op, Frame<double[]> frame, int b, int h, int i, double[] ds) {
        for (int j = 0; j < op.keys(); j++) {
            for (int d = 0; d < op.size(); d++) {
                int q = op.startQ(b, h) + i * op.strideQ() + d;
                int k = op.startK(b, h / op.group()) + j * op.strideK() + d;
                if (frame.wantsGradient(0)) {
                    frame.gradient(0)[q] += op.scale() * ds[j] * frame.input(1)[k];
                }
                if (frame.wantsGradient(1)) {
                    frame.gradient(1)[k] += op.scale() * ds[j] * frame.input(0)[q];
                }
            }
            if (op.mask() != null && frame.wantsGradient(3)) {
                frame.gradient(3)[op.startMask(b, h, i) + j * op.maskStep()] += ds[j];
            }
        }
    }
}
