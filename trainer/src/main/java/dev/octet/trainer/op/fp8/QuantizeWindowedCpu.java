package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Amax, scale, codes. */
public final class QuantizeWindowedCpu implements CpuKernel.Forward<QuantizeWindowed> {
    @Override
    public void forward(QuantizeWindowed op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor quantScale = frame.input(1);
        CpuTensor window = frame.input(2);
        if (op.records()) {
            copy(quantScale, frame.output(2));
            copy(window, frame.output(3));
            quantScale = frame.output(2);
            window = frame.output(3);
        }
        Blocks blocks = QuantizeFp8DelayedCpu.flat(x);
        float[] scale = {new Window(op.slot(), quantScale, window, op.records()).cast(x, blocks, cpu.parallel())};
        new MatrixCodes(blocks, cpu.parallel())
                .encode(x, scale, op.format(), frame.output(0).bytes());
        frame.output(1).write(0, MatrixCodes.scales(scale), 0, 1);
    }

    /** A state's input and output are one tensor, unless a test gives two. */
    private static void copy(CpuTensor from, CpuTensor to) {
        if (from.bytes().address() != to.bytes().address()) {
            to.bytes().copyFrom(from.bytes());
        }
    }
}
