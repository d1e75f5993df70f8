package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/**
 * Squares: dx = 2 (x - t) / n. Cosine c: dx = (c x / |x| - t / |t|) / |x|, without the first term where |x| is too short to count. Each
 * times w / Σ w; the target's gradient is the same with x and t exchanged.
 */
final class RowLossReference implements ReferenceKernel<RowLoss> {
    @Override
    public void forward(RowLoss op, Frame<double[]> frame) {
        double sum = 0;
        double weights = 0;
        for (int r = 0; r < op.rows(); r++) {
            double w = RowWeights.one(frame, 2, r);
            sum += w == 0 ? 0 : w * loss(op, frame.input(0), frame.input(1), r * op.size());
            weights += w;
        }
        frame.output(0)[0] = sum / weights;
        frame.output(1)[0] = weights;
    }

    private static double loss(RowLoss op, double[] x, double[] t, int start) {
        return switch (op.kind()) {
            case MEAN_SQUARED_ERROR -> {
                double sum = 0;
                for (int i = start; i < start + op.size(); i++) {
                    sum += (x[i] - t[i]) * (x[i] - t[i]);
                }
                yield sum / op.size();
            }
            case COSINE -> 1 - dot(op, x, t, start) / (length(op, x, start) * length(op, t, start));
        };
    }

    private static double dot(RowLoss op, double[] x, double[] t, int start) {
        double sum = 0;
        for (int i = start; i < start + op.size(); i++) {
            sum += x[i] * t[i];
        }
        return sum;
    }

    private static double length(RowLoss op, double[] x, int start) {
        return Math.max(Math.sqrt(dot(op, x, x, start)), RowLoss.SHORTEST);
    }

    @Override
    public void backward(RowLoss op, Frame<double[]> frame) {
        for (int side = 0; side < 2; side++) {
            for (int r = 0; r < op.rows() && frame.wantsGradient(side); r++) {
                double w = RowWeights.one(frame, 2, r);
                if (w != 0) {
                    double up = frame.upstream(0)[0] * w / frame.output(1)[0];
                    gradient(op, frame.input(side), frame.input(1 - side), r * op.size(), up, frame.gradient(side));
                }
            }
        }
    }

    private static void gradient(RowLoss op, double[] x, double[] t, int start, double up, double[] dx) {
        double lx = length(op, x, start);
        double lt = length(op, t, start);
        double c = lx > RowLoss.SHORTEST ? dot(op, x, t, start) / (lx * lt) : 0;
        for (int i = start; i < start + op.size(); i++) {
            dx[i] = up
                    * switch (op.kind()) {
                        case MEAN_SQUARED_ERROR -> 2 * (x[i] - t[i]) / op.size();
                        case COSINE -> (c * x[i] / lx - t[i] / lt) / lx;
                    };
        }
    }
}
