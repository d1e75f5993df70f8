package dev.octet.trainer.op.fp8;

import dev.octet.quant.scale.AmaxHistory;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Amax and codes. */
public final class QuantizeFp8DelayedCpu implements CpuKernel<QuantizeFp8Delayed> {
    @Override
    public void forward(QuantizeFp8Delayed op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        MatrixCodes matrix = new MatrixCodes(flat(x), cpu.parallel());
        float[] quantScale = new float[1];
        frame.input(1).read(0, quantScale, 0, 1);
        if (op.historyLength() > 0) {
            record(matrix.amax(x, false)[0], frame.output(2));
        }
        matrix.encode(x, quantScale, op.format(), frame.output(0).bytes());
        frame.output(1).write(0, MatrixCodes.scales(quantScale), 0, 1);
    }

    /** Raises the pending element of a history. */
    static void record(float amax, CpuTensor history) {
        float[] pending = new float[1];
        history.read(0, pending, 0, 1);
        pending[0] = AmaxHistory.raised(pending[0], amax);
        history.write(0, pending, 0, 1);
    }

    /** One block, cut into rows so that threads share it. */
    static Blocks flat(CpuTensor x) {
        int count = Math.toIntExact(x.count());
        int cols = x.shape().rank() == 0 || count == 0
                ? count
                : Math.toIntExact(x.shape().dim(x.shape().rank() - 1));
        return Blocks.whole(count == 0 ? 0 : count / cols, cols);
    }

    @Override
    public void backward(QuantizeFp8Delayed op, Frame<CpuTensor> frame, CpuContext cpu) {
        throw new IllegalStateException("quantisation has no gradient of its own");
    }
}
