package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * Gives each value, bit for bit, from the rank that owns it to all others. Inputs: those that this rank owns. Outputs: the others.
 *
 * @param tensors types of the values
 * @param world not used before the step runs
 */
public record ShareValues(List<OperandType> tensors, List<Integer> owners, int rank, Collectives world)
        implements RankOp {
    /** Its row in the table of operators. */
    public static final OpEntry<ShareValues> ENTRY = OpEntry.of(
            ShareValues.class,
            new ShareValuesReference(),
            new ShareValuesCpu(),
            RankOp.onHost(
                    new ShareValuesCpu(), op -> op.tensors.size() - op.outputs().size()));

    public ShareValues {
        tensors = List.copyOf(tensors);
        owners = List.copyOf(owners);
        RankOp.requireOwners(tensors, owners);
    }

    @Override
    public String type() {
        return "ShareValues";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> others = new ArrayList<>();
        for (int i = 0; i < tensors.size(); i++) {
            if (owners.get(i) != rank) {
                others.add(tensors.get(i));
            }
        }
        return others;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "ShareValues[rank=" + rank + ", owners=" + owners + "]";
    }
}
