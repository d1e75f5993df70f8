package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** In FP32, not in doubles: the bits of a scale are part of a recipe. */
public final class WindowUpdateReference implements ReferenceKernel.Forward<WindowUpdate> {
    @Override
    public void forward(WindowUpdate op, Frame<double[]> frame) {
        boolean counts = frame.input(0)[0] == 0;
        for (int slot = 0; slot < op.slots().size(); slot++) {
            float[] window = Doubles.toFloats(frame.input(2 * slot + 2));
            float before = (float) frame.input(2 * slot + 1)[0];
            frame.output(2 * slot)[0] = counts ? op.update(slot, window, before) : before;
            for (int i = 0; i < window.length; i++) {
                frame.output(2 * slot + 1)[i] = window[i];
            }
        }
    }
}
