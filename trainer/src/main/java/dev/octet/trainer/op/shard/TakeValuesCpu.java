package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Each value is received where it lies. */
final class TakeValuesCpu implements CpuKernel.Forward<TakeValues> {
    @Override
    public void forward(TakeValues op, Frame<CpuTensor> frame, CpuContext cpu) {
        for (int i = 0; i < op.tensors().size(); i++) {
            op.ranks().take(frame.output(i).bytes(), op.from(), op.channel());
        }
    }
}
