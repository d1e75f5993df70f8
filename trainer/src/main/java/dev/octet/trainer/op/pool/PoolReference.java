package dev.octet.trainer.op.pool;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;

/** The gradient of a maximum goes to where it was; that of a mean to all places of its window alike. */
final class PoolReference implements ReferenceKernel<Pool> {
    @Override
    public void forward(Pool op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] y = frame.output(0);
        int[] divisors = op.divisors();
        if (op.isMax()) {
            Arrays.fill(y, Double.NEGATIVE_INFINITY);
            Arrays.fill(frame.output(1), -1);
        } else {
            Arrays.fill(y, 0);
        }
        for (int plane = 0; plane < op.planes(); plane++) {
            int ins = plane * op.planeIn();
            int outs = plane * op.planeOut();
            op.visit((out, in) -> {
                double v = x[ins + in];
                if (!op.isMax()) {
                    y[outs + out] += v / divisors[out];
                } else if (frame.output(1)[outs + out] < 0 || v > y[outs + out] || Double.isNaN(v)) {
                    y[outs + out] = v;
                    frame.output(1)[outs + out] = in;
                }
            });
        }
    }

    @Override
    public void backward(Pool op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        double[] dx = frame.gradient(0);
        int[] divisors = op.divisors();
        for (int plane = 0; plane < op.planes(); plane++) {
            int ins = plane * op.planeIn();
            int outs = plane * op.planeOut();
            if (op.isMax()) {
                for (int out = outs; out < outs + op.planeOut(); out++) {
                    dx[ins + (int) frame.output(1)[out]] += dy[out];
                }
            } else {
                op.visit((out, in) -> dx[ins + in] += dy[outs + out] / divisors[out]);
            }
        }
    }
}
