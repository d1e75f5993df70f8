package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.lang.foreign.MemorySegment;

/** Value by value, from its owner to all. */
final class ShareValuesReference implements ReferenceKernel.Forward<ShareValues> {
    @Override
    public void forward(ShareValues op, Frame<double[]> frame) {
        int inputs = 0;
        int outputs = 0;
        for (int owner : op.owners()) {
            double[] value = owner == op.rank() ? frame.input(inputs++) : frame.output(outputs++);
            op.world().broadcast(MemorySegment.ofArray(value), owner);
        }
    }
}
