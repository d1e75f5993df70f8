package dev.octet.trainer.program;

import java.util.List;
import java.util.Map;

/**
 * Steps in order, and the values they work on.
 *
 * @param values all, by id
 * @param inputs what is fed, by the graph's names
 * @param outputs what can be read after FORWARD, by the graph's names; the loss is called {@link #LOSS}
 * @param gradients gradient of each trained parameter, by the parameter's name
 * @param initialStates F32 elements of each {@link Role#STATE} value before the first step; one number fills all
 */
public record Program(
        List<Value> values,
        List<Step> steps,
        Map<String, Value> inputs,
        Map<String, Value> outputs,
        Map<String, Value> gradients,
        Map<Value, List<Float>> initialStates) {
    /** Name of the loss among the outputs. */
    public static final String LOSS = "loss";
}
