package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** A message for each value. */
final class PostValuesCpu implements CpuKernel.Forward<PostValues> {
    @Override
    public void forward(PostValues op, Frame<CpuTensor> frame, CpuContext cpu) {
        for (int i = 0; i < op.tensors().size(); i++) {
            op.ranks().post(frame.input(i).bytes(), op.to(), op.channel());
        }
    }
}
