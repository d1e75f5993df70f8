package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CpuState;

/** As {@link SquareSumCpu}, tiles read through the form. */
final class CodedSquareSumCpu implements CpuKernel.Forward<CodedSquareSum> {
    @Override
    public void forward(CodedSquareSum op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuState g = CpuState.of(op.form(), op.g(), frame::input, 0, 0);
        double[] sums = new double[Math.toIntExact(Math.ceilDiv(op.g().count(), (long) CpuContext.TILE))];
        tiles(op.g().count(), cpu, () -> {
            float[] tile = new float[CpuContext.TILE];
            return (from, n) -> {
                g.read(from, tile, n);
                sums[(int) (from / CpuContext.TILE)] = SquareSumCpu.squares(tile, n);
            };
        });
        double sum = 0;
        for (double s : sums) {
            sum += s;
        }
        frame.output(0).bytes().set(Tensor.F64_LE, 0, sum);
    }
}
