package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * Averages gradients of all ranks in F32, each to the rank that owns it: each rank's gradient times 1 / N, then added in the order of ranks, with the bits of an average that
 * all ranks get. Inputs: this rank's gradients. Outputs: the averages that this rank owns, which may be the inputs themselves.
 *
 * @param tensors types of the gradients
 * @param averages types of the averages, one for each gradient, to which they are rounded
 * @param world not used before the step runs
 */
public record AverageShares(
        List<OperandType> tensors, List<OperandType> averages, List<Integer> owners, int rank, Collectives world)
        implements RankOp {
    /** Its row in the table of operators. */
    public static final OpEntry<AverageShares> ENTRY = OpEntry.of(
            AverageShares.class,
            new AverageSharesReference(),
            new AverageSharesCpu(),
            RankOp.onHost(new AverageSharesCpu(), op -> op.tensors.size()));

    public AverageShares {
        tensors = List.copyOf(tensors);
        averages = List.copyOf(averages);
        owners = List.copyOf(owners);
        RankOp.requireOwners(tensors, owners);
        RankOp.requireOwners(averages, owners);
    }

    @Override
    public String type() {
        return "AverageShares";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> own = new ArrayList<>();
        for (int i = 0; i < averages.size(); i++) {
            if (owners.get(i) == rank) {
                own.add(averages.get(i));
            }
        }
        return own;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "AverageShares[rank=" + rank + ", owners=" + owners + "]";
    }
}
