package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y[j, i] = x[indices[j] - first, i] where the rank has that row, else 0; dx[indices[j] - first, i] += dy[j, i]. */
final class CutGatherReference implements ReferenceKernel<CutGather> {
    @Override
    public void forward(CutGather op, Frame<double[]> frame) {
        int[] at = rows(op, frame);
        int width = (int) op.rows().inner();
        for (int j = 0; j < at.length; j++) {
            for (int i = 0; i < width; i++) {
                frame.output(0)[j * width + i] = at[j] < 0 ? 0 : frame.input(0)[at[j] * width + i];
            }
        }
    }

    @Override
    public void backward(CutGather op, Frame<double[]> frame) {
        int[] at = rows(op, frame);
        int width = (int) op.rows().inner();
        for (int j = 0; j < at.length; j++) {
            for (int i = 0; i < width && at[j] >= 0 && at[j] != op.rows().padding(); i++) {
                frame.gradient(0)[at[j] * width + i] += frame.upstream(0)[j * width + i];
            }
        }
    }

    private static int[] rows(CutGather op, Frame<double[]> frame) {
        return op.own(Indices.resolve(op.rows().node(), frame.input(1), op.all()));
    }
}
