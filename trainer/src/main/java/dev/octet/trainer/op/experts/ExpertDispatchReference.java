package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Expert by expert, slot by slot. A token's gradient is the sum of those of its rows. */
final class ExpertDispatchReference implements ReferenceKernel<ExpertDispatch> {
    @Override
    public void forward(ExpertDispatch op, Frame<double[]> frame) {
        int[] chosen = Indices.resolve(op.node(), frame.input(1), op.experts());
        int row = 0;
        for (int e = 0; e < op.experts(); e++) {
            frame.output(2)[e] = row;
            for (int slot = 0; slot < chosen.length; slot++) {
                if (chosen[slot] == e) {
                    int token = slot / op.choices();
                    System.arraycopy(frame.input(0), token * op.size(), frame.output(0), row * op.size(), op.size());
                    frame.output(1)[slot] = row++;
                }
            }
        }
        frame.output(2)[op.experts()] = row;
    }

    @Override
    public void backward(ExpertDispatch op, Frame<double[]> frame) {
        if (!frame.hasUpstream(0)) {
            return;
        }
        for (int slot = 0; slot < op.slots(); slot++) {
            int to = slot / op.choices() * op.size();
            int from = ((int) frame.output(1)[slot]) * op.size();
            for (int i = 0; i < op.size(); i++) {
                frame.gradient(0)[to + i] += frame.upstream(0)[from + i];
            }
        }
    }
}
