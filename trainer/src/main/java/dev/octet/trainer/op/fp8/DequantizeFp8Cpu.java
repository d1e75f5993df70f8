package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Band of rows by band of rows. */
final class DequantizeFp8Cpu implements CpuKernel.Forward<DequantizeFp8> {
    @Override
    public void forward(DequantizeFp8 op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] scales = new float[Math.toIntExact(frame.input(1).count())];
        frame.input(1).read(0, scales, 0, scales.length);
        new MatrixCodes(op.form().blocks(), cpu.parallel())
                .decode(
                        op.form().format(),
                        frame.input(0).bytes(),
                        scales,
                        op.y().dtype(),
                        frame.output(0).bytes());
    }
}
