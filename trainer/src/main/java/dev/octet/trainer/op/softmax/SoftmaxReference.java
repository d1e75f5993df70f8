package dev.octet.trainer.op.softmax;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** dx = y ⊙ (dy - sum(dy ⊙ y)): the Jacobian of softmax is diag(y) - y yᵀ. Of its logarithm: dx = dy - exp(y) sum(dy). */
final class SoftmaxReference implements ReferenceKernel<Softmax> {
    @Override
    public void forward(Softmax op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] y = frame.output(0);
        for (int o = 0; o < op.outer(); o++) {
            for (int i = 0; i < op.inner(); i++) {
                int start = o * op.size() * op.inner() + i;
                double max = Double.NEGATIVE_INFINITY;
                for (int k = 0; k < op.size(); k++) {
                    max = Math.max(max, x[start + k * op.inner()]);
                }
                double sum = 0;
                for (int k = 0; k < op.size(); k++) {
                    int at = start + k * op.inner();
                    y[at] = Math.exp(x[at] - max);
                    sum += y[at];
                }
                for (int k = 0; k < op.size(); k++) {
                    int at = start + k * op.inner();
                    y[at] = op.logarithm() ? x[at] - max - Math.log(sum) : y[at] / sum;
                }
            }
        }
    }

    @Override
    public void backward(Softmax op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        double[] dy = frame.upstream(0);
        double[] dx = frame.gradient(0);
        for (int o = 0; o < op.outer(); o++) {
            for (int i = 0; i < op.inner(); i++) {
                int start = o * op.size() * op.inner() + i;
                double dot = 0;
                for (int k = 0; k < op.size(); k++) {
                    int at = start + k * op.inner();
                    dot += op.logarithm() ? dy[at] : dy[at] * y[at];
                }
                for (int k = 0; k < op.size(); k++) {
                    int at = start + k * op.inner();
                    dx[at] = op.logarithm() ? dy[at] - Math.exp(y[at]) * dot : y[at] * (dy[at] - dot);
                }
            }
        }
    }
}
