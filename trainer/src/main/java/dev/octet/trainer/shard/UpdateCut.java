package dev.octet.trainer.shard;

import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.state.StateForms;
import java.util.List;
import java.util.OptionalInt;

/**
 * How an update is cut into those of ranks that each have parameters of their own.
 *
 * @param whole not cut
 * @param facts of it
 * @param partition who owns which parameter
 * @param sharesSquares whether each rank adds up the squares of its own gradients alone, and gets those of the others
 * @param averaged gradients that are averaged to their owners first, those in a list together
 * @param shared weights that all ranks get at the end, those in a list together
 * @param states how parameters are kept
 */
record UpdateCut(
        UpdateProgram whole,
        UpdateFacts facts,
        Partition partition,
        boolean sharesSquares,
        List<List<String>> averaged,
        List<List<String>> shared,
        StateForms states) {
    UpdateCut {
        averaged = List.copyOf(averaged);
        shared = List.copyOf(shared);
    }

    /** The rank that alone needs a state; empty for what all ranks keep. */
    OptionalInt owner(String state) {
        String parameter = facts.parameterOf().get(state);
        return parameter == null ? OptionalInt.empty() : OptionalInt.of(partition.owner(parameter));
    }
}
