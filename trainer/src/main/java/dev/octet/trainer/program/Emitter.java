package dev.octet.trainer.program;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Receives a program step by step. Backward steps are derived from the forward steps, not emitted by hand. */
public interface Emitter {
    /** A value that lives within a micro-batch. */
    Value temporary(String name, OperandType type);

    /** A value computed from parameters in {@link Phase#PREPARE}. */
    Value prepared(String name, OperandType type);

    /**
     * A persistent value that steps read and change. The same name gives the same value.
     *
     * @param initial F32 elements before the first step; a single number fills the tensor
     */
    Value state(String name, OperandType type, float... initial);

    /**
     * Appends a step.
     *
     * @param node id of the graph node it comes from
     * @param inputs in the operator's order; null for an absent optional input
     * @param outputs the operator's outputs; the emitter appends its saved values
     */
    void step(Phase phase, String node, Op op, List<@Nullable Value> inputs, List<Value> outputs);
}
