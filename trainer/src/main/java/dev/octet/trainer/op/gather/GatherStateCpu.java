package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.state.CpuState;

/** Decodes each row where it goes, tile by tile. */
final class GatherStateCpu implements CpuKernel<GatherState> {
    private static final GatherCpu ROWS = new GatherCpu();

    @Override
    public void forward(GatherState op, Frame<CpuTensor> frame, CpuContext cpu) {
        Gather gather = op.rows();
        CpuState table = CpuState.of(op.form(), gather.x(), GatherState.parts(frame::input), 0, 0);
        CpuTensor y = frame.output(0);
        int[] rows = Indices.resolve(gather.node(), frame.input(1), gather.size());
        long inner = gather.inner();
        long grain = Math.max(1, CpuContext.GRAIN / Math.max(1, inner));
        cpu.parallel().ranges(rows.length, grain, (from, to) -> {
            float[] tile = new float[CpuContext.TILE];
            for (long i = from; i < to; i++) {
                for (long column = 0; column < inner; column += tile.length) {
                    int n = (int) Math.min(tile.length, inner - column);
                    table.read(rows[(int) i] * inner + column, tile, n);
                    y.write(i * inner + column, tile, 0, n);
                }
            }
        });
    }

    @Override
    public void backward(GatherState op, Frame<CpuTensor> frame, CpuContext cpu) {
        ROWS.backward(op.rows(), frame, cpu);
    }
}
