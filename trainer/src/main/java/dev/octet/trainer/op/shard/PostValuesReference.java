package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.lang.foreign.MemorySegment;

/** A message for each value, in F64. */
final class PostValuesReference implements ReferenceKernel.Forward<PostValues> {
    @Override
    public void forward(PostValues op, Frame<double[]> frame) {
        for (int i = 0; i < op.tensors().size(); i++) {
            op.ranks().post(MemorySegment.ofArray(frame.input(i)), op.to(), op.channel());
        }
    }
}
