package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** In FP32, not in doubles: the bits of a scale are part of a recipe. */
public final class AmaxUpdateReference implements ReferenceKernel.Forward<AmaxUpdate> {
    @Override
    public void forward(AmaxUpdate op, Frame<double[]> frame) {
        for (int slot = 0; slot < op.slots().size(); slot++) {
            float[] history = Doubles.toFloats(frame.input(2 * slot + 1));
            frame.output(2 * slot)[0] = op.update(slot, history, (float) frame.input(2 * slot)[0]);
            for (int i = 0; i < history.length; i++) {
                frame.output(2 * slot + 1)[i] = history[i];
            }
        }
    }
}
