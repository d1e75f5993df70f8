package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * The average of ranks' gradients in F32, as torch's DistributedDataParallel computes it (torch/csrc/distributed/c10d/reducer.cpp): each times 1 / N, then added in the
 * order of ranks. Inputs: a gradient of each rank. Output: the average.
 *
 * @param g type of the average
 * @param ranks how many; their gradients are F32
 */
public record RankAverage(OperandType g, int ranks) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<RankAverage> ENTRY = UpdateOp.entry(
            RankAverage.class, RankAverageReference::average, new RankAverageCpu(), new RankAverageCuda());

    public RankAverage {
        if (ranks < 1 || !g.dtype().isFloat()) {
            throw new IllegalArgumentException(ranks + " ranks of " + g);
        }
    }

    @Override
    public String type() {
        return "RankAverage";
    }

    /** What each gradient is multiplied by. */
    float factor() {
        return (float) (1.0 / ranks);
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(g);
    }
}
