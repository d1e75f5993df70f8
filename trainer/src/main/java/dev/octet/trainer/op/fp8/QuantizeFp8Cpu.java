package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Twice over x: once for the amaxes, once for the codes. */
public final class QuantizeFp8Cpu implements CpuKernel.Forward<QuantizeFp8> {
    @Override
    public void forward(QuantizeFp8 op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        MatrixCodes matrix = new MatrixCodes(op.form().blocks(), cpu.parallel());
        float[] amax = matrix.amax(x, op.rule().seesNaN());
        float[] quantScales = MatrixCodes.quantScales(amax, op.form().format(), op.rule(), x.dtype());
        matrix.encode(x, quantScales, op.form().format(), frame.output(0).bytes());
        float[] scales = MatrixCodes.scales(quantScales);
        frame.output(1).write(0, scales, 0, scales.length);
        if (op.records()) {
            float[] largest = new float[1];
            for (float a : amax) {
                largest[0] = a > largest[0] ? a : largest[0];
            }
            frame.output(2).write(0, largest, 0, 1);
        }
    }
}
