package dev.octet.trainer.op.norm;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/**
 * With g = dy · w, n elements in a row: {@code dx = r (g - mean(g) - x̂ mean(g x̂))}, without mean(g) when not centred;
 * {@code dw = Σ dy x̂} and {@code db = Σ dy} over the rows. From mean and r as outputs: {@code dx += dmean / n - dr r² x̂ / n}.
 */
final class RowNormReference implements ReferenceKernel<RowNorm> {
    @Override
    public void forward(RowNorm op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] w = frame.input(1);
        double[] y = frame.output(0);
        int n = op.size();
        for (int row = 0; row < op.rows(); row++) {
            int start = row * n;
            double mean = 0;
            if (op.centred()) {
                for (int i = 0; i < n; i++) {
                    mean += x[start + i];
                }
                mean /= n;
                frame.output(1)[row] = mean;
            }
            double variance = 0;
            for (int i = 0; i < n; i++) {
                double d = x[start + i] - mean;
                variance += d * d;
            }
            double r = 1 / Math.sqrt(variance / n + op.epsilon());
            frame.output(op.deviationOutput())[row] = r;
            for (int i = 0; i < n; i++) {
                y[start + i] = (x[start + i] - mean) * r * w[i] + (frame.hasInput(2) ? frame.input(2)[i] : 0);
            }
        }
    }

    @Override
    public void backward(RowNorm op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] w = frame.input(1);
        int n = op.size();
        for (int row = 0; row < op.rows(); row++) {
            double mean = op.centred() ? frame.output(1)[row] : 0;
            double r = frame.output(op.deviationOutput())[row];
            double[] normal = new double[n];
            double[] dy = new double[n];
            double sumG = 0;
            double sumGNormal = 0;
            for (int i = 0; i < n; i++) {
                normal[i] = (x[row * n + i] - mean) * r;
                dy[i] = frame.hasUpstream(0) ? frame.upstream(0)[row * n + i] : 0;
                sumG += dy[i] * w[i];
                sumGNormal += dy[i] * w[i] * normal[i];
                if (frame.wantsGradient(1)) {
                    frame.gradient(1)[i] += dy[i] * normal[i];
                }
                if (frame.wantsGradient(2)) {
                    frame.gradient(2)[i] += dy[i];
                }
            }
            if (frame.wantsGradient(0)) {
                double dmean = op.centred() && frame.hasUpstream(1) ? frame.upstream(1)[row] : 0;
                double dr = frame.hasUpstream(op.deviationOutput()) ? frame.upstream(op.deviationOutput())[row] : 0;
                for (int i = 0; i < n; i++) {
                    double g = dy[i] * w[i] - (op.centred() ? sumG / n : 0) - normal[i] * sumGNormal / n;
                    frame.gradient(0)[row * n + i] = r * g + dmean / n - dr * r * r * normal[i] / n;
                }
            }
        }
    }
}
