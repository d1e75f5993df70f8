package dev.octet.trainer.op.reduce;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;

/** Element by element; derivatives as {@link Reduce.Kind} has them. */
final class ReduceReference implements ReferenceKernel<Reduce> {
    @Override
    public void forward(Reduce op, Frame<double[]> frame) {
        forward(op, frame.input(0), frame.output(0));
    }

    static void forward(Reduce op, double[] x, double[] y) {
        Broadcast broadcast = op.broadcast();
        double[] largest = new double[y.length]; // of x, or of -x for the smallest
        Arrays.fill(largest, Double.NEGATIVE_INFINITY);
        double sign = op.kind() == Reduce.Kind.ReduceMin ? -1 : 1;
        for (int i = 0; i < x.length; i++) {
            int at = (int) broadcast.index(0, i);
            largest[at] = Math.max(largest[at], sign * x[i]);
        }
        double[] sum = new double[y.length];
        for (int i = 0; i < x.length; i++) {
            int at = (int) broadcast.index(0, i);
            sum[at] += switch (op.kind()) {
                case ReduceL1 -> Math.abs(x[i]);
                case ReduceL2, ReduceSumSquare -> x[i] * x[i];
                case ReduceLogSumExp -> Math.exp(x[i] - largest[at]);
                case ReduceLogSum, ReduceMean, ReduceSum, ReduceMax, ReduceMin -> x[i];
            };
        }
        for (int k = 0; k < y.length; k++) {
            y[k] = switch (op.kind()) {
                case ReduceL1, ReduceSum, ReduceSumSquare -> sum[k];
                case ReduceL2 -> Math.sqrt(sum[k]);
                case ReduceLogSum -> Math.log(sum[k]);
                case ReduceLogSumExp -> largest[k] + Math.log(sum[k]);
                case ReduceMean -> sum[k] / op.terms();
                case ReduceMax, ReduceMin -> sign * largest[k];
            };
        }
    }

    @Override
    public void backward(Reduce op, Frame<double[]> frame) {
        Broadcast broadcast = op.broadcast();
        double[] g = frame.upstream(0);
        double[] dx = frame.gradient(0);
        double[] x = op.backwardReadsInput(0) ? frame.input(0) : dx; // dx: not looked at
        double[] y = op.backwardReadsOutput(0) ? frame.output(0) : g;
        double[] equal = new double[g.length];
        for (int i = 0; i < dx.length; i++) {
            int at = (int) broadcast.index(0, i);
            equal[at] += x[i] == y[at] ? 1 : 0;
        }
        for (int i = 0; i < dx.length; i++) {
            int at = (int) broadcast.index(0, i);
            dx[i] = switch (op.kind()) {
                case ReduceL1 -> g[at] * Math.signum(x[i]);
                case ReduceL2 -> y[at] == 0 ? 0 : g[at] * x[i] / y[at];
                case ReduceLogSum -> g[at] / Math.exp(y[at]);
                case ReduceLogSumExp -> g[at] * Math.exp(x[i] - y[at]);
                case ReduceMax, ReduceMin -> x[i] == y[at] ? g[at] / equal[at] : 0;
                case ReduceMean -> g[at] / op.terms();
                case ReduceSum -> g[at];
                case ReduceSumSquare -> 2 * g[at] * x[i];
            };
        }
    }
}
