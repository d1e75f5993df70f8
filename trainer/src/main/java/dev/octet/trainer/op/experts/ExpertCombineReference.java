package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;

/** Slot by slot: a weight's gradient is the product of the token's gradient with the row, a row's the token's gradient times the weight. */
final class ExpertCombineReference implements ReferenceKernel<ExpertCombine> {
    @Override
    public void forward(ExpertCombine op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        Arrays.fill(y, 0);
        int size = op.size();
        for (int slot = 0; slot < op.tokens() * op.choices(); slot++) {
            int from = ((int) frame.input(1)[slot]) * size;
            int to = slot / op.choices() * size;
            for (int i = 0; i < size; i++) {
                y[to + i] += frame.input(2)[slot] * frame.input(0)[from + i];
            }
        }
    }

    @Override
    public void backward(ExpertCombine op, Frame<double[]> frame) {
        int size = op.size();
        for (int slot = 0; slot < op.tokens() * op.choices(); slot++) {
            int row = ((int) frame.input(1)[slot]) * size;
            int token = slot / op.choices() * size;
            for (int i = 0; i < size; i++) {
                double dy = frame.upstream(0)[token + i];
                if (frame.wantsGradient(0)) {
                    frame.gradient(0)[row + i] += frame.input(2)[slot] * dy;
                }
                if (frame.wantsGradient(2)) {
                    frame.gradient(2)[slot] += frame.input(0)[row + i] * dy;
                }
            }
        }
    }
}
