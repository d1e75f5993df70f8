package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.lang.foreign.MemorySegment;

/** A message for each value, in F64. */
final class TakeValuesReference implements ReferenceKernel.Forward<TakeValues> {
    @Override
    public void forward(TakeValues op, Frame<double[]> frame) {
        for (int i = 0; i < op.tensors().size(); i++) {
            op.ranks().take(MemorySegment.ofArray(frame.output(i)), op.from(), op.channel());
        }
    }
}
