package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Sends values, bit for bit, to another rank, which takes them with {@link TakeValues}; waits for nobody. Inputs: the values. No output.
 *
 * @param tensors types of the values
 * @param to the rank that takes them
 * @param channel where they travel, see {@link Collectives#post}
 * @param ranks not used before the step runs
 */
public record PostValues(List<OperandType> tensors, int to, int channel, Collectives ranks) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<PostValues> ENTRY = OpEntry.of(
            PostValues.class,
            new PostValuesReference(),
            new PostValuesCpu(),
            RankOp.onHost(new PostValuesCpu(), op -> op.tensors.size()));

    public PostValues {
        tensors = List.copyOf(tensors);
    }

    @Override
    public String type() {
        return "PostValues";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of();
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "PostValues[to=" + to + ", channel=" + channel + "]";
    }
}
