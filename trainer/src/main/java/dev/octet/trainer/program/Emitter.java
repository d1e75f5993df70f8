package dev.octet.trainer.program;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What a program is written with, step by step. The backward half follows from the forward steps; it is not emitted by hand. */
public interface Emitter {
    /** A value within a micro-batch. */
    Value temporary(String name, OperandType type);

    /** A value made from parameters in {@link Phase#PREPARE}. */
    Value prepared(String name, OperandType type);

    /**
     * A lasting value that steps read and change. The same name gives the same value.
     *
     * @param initial F32 elements before the first step; one number fills all
     */
    Value state(String name, OperandType type, float... initial);

    /**
     * Appends a step.
     *
     * @param node id of the graph's node it comes from
     * @param inputs as the operator numbers them; null where an optional one is absent
     * @param outputs the operator's outputs; the emitter adds its saved values
     */
    void step(Phase phase, String node, Op op, List<@Nullable Value> inputs, List<Value> outputs);
}
