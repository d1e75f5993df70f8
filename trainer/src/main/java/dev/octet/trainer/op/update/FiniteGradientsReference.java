package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;

/** In order of the gradients. */
final class FiniteGradientsReference extends UpdateReference<FiniteGradients> {
    @Override
    public void forward(FiniteGradients op, Frame<double[]> frame) {
        double squares = 0;
        for (int i = 0; i < op.gradients(); i++) {
            squares += scalar(frame, FiniteGradients.SQUARES + i);
        }
        double[] outputs = op.outputs(scalar(frame, 0), scalar(frame, 1), scalar(frame, 2), squares);
        for (int j = 0; j < outputs.length; j++) {
            frame.output(j)[0] = outputs[j];
        }
    }
}
