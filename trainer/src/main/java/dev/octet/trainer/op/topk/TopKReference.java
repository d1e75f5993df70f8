package dev.octet.trainer.op.topk;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** The best of a line, then the best of the rest, k times. */
final class TopKReference implements ReferenceKernel<TopK> {
    @Override
    public void forward(TopK op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        int inner = (int) op.inner();
        for (long line = 0; line < op.lines(); line++) {
            int from = (int) op.start(line, op.size());
            int to = (int) op.start(line, op.k());
            boolean[] taken = new boolean[op.size()];
            for (int place = 0; place < op.k(); place++) {
                int best = -1;
                for (int i = 0; i < op.size(); i++) {
                    if (!taken[i] && (best < 0 || op.isBetter(x[from + i * inner], x[from + best * inner]))) {
                        best = i;
                    }
                }
                taken[best] = true;
                frame.output(0)[to + place * inner] = x[from + best * inner];
                frame.output(1)[to + place * inner] = best;
            }
        }
    }

    @Override
    public void backward(TopK op, Frame<double[]> frame) {
        if (!frame.hasUpstream(0)) {
            return;
        }
        int inner = (int) op.inner();
        for (long line = 0; line < op.lines(); line++) {
            int from = (int) op.start(line, op.size());
            int to = (int) op.start(line, op.k());
            for (int place = 0; place < op.k(); place++) {
                int at = to + place * inner;
                frame.gradient(0)[from + ((int) frame.output(1)[at]) * inner] = frame.upstream(0)[at];
            }
        }
    }
}
