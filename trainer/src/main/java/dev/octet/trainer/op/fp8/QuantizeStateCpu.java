package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CpuState;
import java.lang.foreign.MemorySegment;

/** Twice over the tensor, tile by tile: once for amax, once for the codes. */
final class QuantizeStateCpu implements CpuKernel.Forward<QuantizeState> {
    @Override
    public void forward(QuantizeState op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuState x = CpuState.of(op.form(), op.tensor(), frame::input, 0, 0);
        long count = op.tensor().count();
        int tile = CpuContext.TILE;
        float[] amaxes = new float[Math.toIntExact(Math.ceilDiv(count, (long) tile))];
        cpu.parallel().ranges(amaxes.length, 1, (first, end) -> {
            float[] values = new float[tile];
            for (long t = first; t < end; t++) {
                int n = (int) Math.min(tile, count - t * tile);
                x.read(t * tile, values, n);
                amaxes[(int) t] = CpuState.amax(values, n);
            }
        });
        float quantScale = op.rule()
                .quantScale(CpuState.amax(amaxes, amaxes.length), 1, op.format().maxValue());
        MemorySegment codes = frame.output(0).bytes();
        cpu.parallel().ranges(amaxes.length, 1, (first, end) -> {
            float[] values = new float[tile];
            for (long t = first; t < end; t++) {
                int n = (int) Math.min(tile, count - t * tile);
                x.read(t * tile, values, n);
                for (int i = 0; i < n; i++) {
                    values[i] *= quantScale;
                }
                MemorySegment from = MemorySegment.ofArray(values).asSlice(0, 4L * n);
                ElementCast.best()
                        .encode(DType.F32, from, 1, op.format(), Overflow.SATURATE, codes.asSlice(t * tile, n));
            }
        });
        frame.output(1).writeNumber(0, 1 / quantScale);
    }
}
