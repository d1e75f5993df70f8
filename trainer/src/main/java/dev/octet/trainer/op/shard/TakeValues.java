package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Waits for values that another rank sends with {@link PostValues}. No input. Outputs: the values.
 *
 * @param tensors types of the values
 * @param from the rank that sends them
 * @param channel where they travel, see {@link Collectives#take}
 * @param ranks not used before the step runs
 */
public record TakeValues(List<OperandType> tensors, int from, int channel, Collectives ranks) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<TakeValues> ENTRY = OpEntry.of(
            TakeValues.class,
            new TakeValuesReference(),
            new TakeValuesCpu(),
            RankOp.onHost(new TakeValuesCpu(), _ -> 0));

    public TakeValues {
        tensors = List.copyOf(tensors);
    }

    @Override
    public String type() {
        return "TakeValues";
    }

    @Override
    public List<OperandType> outputs() {
        return tensors;
    }

    /** A message is sent once. */
    @Override
    public boolean isRepeatable() {
        return false;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "TakeValues[from=" + from + ", channel=" + channel + "]";
    }
}
