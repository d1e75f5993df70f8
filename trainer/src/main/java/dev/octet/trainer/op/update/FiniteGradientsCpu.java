package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** A handful of numbers: in F64, in the calling thread. */
final class FiniteGradientsCpu extends UpdateCpu<FiniteGradients> {
    @Override
    public void forward(FiniteGradients op, Frame<CpuTensor> frame, CpuContext cpu) {
        double squares = 0;
        for (int i = 0; i < op.gradients(); i++) {
            squares += frame.input(FiniteGradients.SQUARES + i).bytes().get(Tensor.F64_LE, 0);
        }
        double[] outputs = op.outputs(scalar(frame, 0), scalar(frame, 1), scalar(frame, 2), squares);
        for (int j = 0; j < outputs.length; j++) {
            frame.output(j).write(0, new float[] {(float) outputs[j]}, 0, 1);
        }
    }
}
