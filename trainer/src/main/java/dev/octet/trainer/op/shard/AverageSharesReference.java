package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Every average of all tensors on every rank, of which it keeps its own. Ranks exchange F32, whatever the rest of the reference computes in. */
final class AverageSharesReference implements ReferenceKernel.Forward<AverageShares> {
    @Override
    public void forward(AverageShares op, Frame<double[]> frame) {
        int own = 0;
        for (int i = 0; i < op.owners().size(); i++) {
            double[] gradient = frame.input(i);
            float[] average = new float[gradient.length];
            for (int k = 0; k < average.length; k++) {
                average[k] = (float) gradient[k];
            }
            op.world().allReduce(average, RankReduction.AVERAGE);
            if (op.owners().get(i) == op.rank()) {
                double[] y = frame.output(own);
                own++;
                for (int k = 0; k < average.length; k++) {
                    y[k] = average[k];
                }
            }
        }
    }
}
