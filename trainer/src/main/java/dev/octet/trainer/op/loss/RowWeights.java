package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.Arrays;

/** How much each row counts, as an optional input says, such as an attention mask. */
final class RowWeights {
    private RowWeights() {}

    /** Weights from input {@code i}; 1 for each where it is absent. */
    static float[] of(Frame<CpuTensor> frame, int i, int rows) {
        float[] weights = new float[rows];
        if (frame.hasInput(i)) {
            frame.input(i).read(0, weights, 0, rows);
        } else {
            Arrays.fill(weights, 1);
        }
        return weights;
    }

    /** The weight of one row, as {@link #of}. */
    static double one(Frame<double[]> frame, int i, int row) {
        return frame.hasInput(i) ? frame.input(i)[row] : 1;
    }
}
