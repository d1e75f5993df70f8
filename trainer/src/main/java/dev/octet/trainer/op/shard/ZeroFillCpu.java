package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;

/** Bytes of zero, in every type. */
final class ZeroFillCpu implements CpuKernel.Forward<ZeroFill> {
    @Override
    public void forward(ZeroFill op, Frame<CpuTensor> frame, CpuContext cpu) {
        MemorySegment y = frame.output(0).bytes();
        cpu.parallel()
                .ranges(
                        y.byteSize(),
                        CpuContext.TILE,
                        (from, to) -> y.asSlice(from, to - from).fill((byte) 0));
    }
}
