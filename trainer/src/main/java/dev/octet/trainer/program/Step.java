package dev.octet.trainer.program;

import dev.octet.trainer.kernel.Op;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One call of an operator, forward or backward.
 *
 * @param node id of the graph node it comes from, for messages
 * @param backward whether to call the operator's backward half
 * @param inputs in the operator's order; null where absent, or where backward does not read them
 * @param outputs the operator's outputs and saved values; null where backward does not read them
 * @param upstream backward only: gradients of the outputs; null for outputs without a gradient
 * @param gradients backward only: destinations of the inputs' gradients; null where not wanted
 * @param accumulated indices of the inputs whose gradients are added to their destination
 * @param repeats whether it computes again what a step of {@link Phase#FORWARD} did: such a step changes no state, and observers do not see it
 */
public record Step(
        Phase phase,
        String node,
        Op op,
        boolean backward,
        List<@Nullable Value> inputs,
        List<@Nullable Value> outputs,
        List<@Nullable Value> upstream,
        List<@Nullable Value> gradients,
        Set<Integer> accumulated,
        boolean repeats) {
    public Step {
        inputs = fixed(inputs);
        outputs = fixed(outputs);
        upstream = fixed(upstream);
        gradients = fixed(gradients);
        accumulated = Set.copyOf(accumulated);
    }

    /** A step that computes its results for the first time. */
    public Step(
            Phase phase,
            String node,
            Op op,
            boolean backward,
            List<@Nullable Value> inputs,
            List<@Nullable Value> outputs,
            List<@Nullable Value> upstream,
            List<@Nullable Value> gradients,
            Set<Integer> accumulated) {
        this(phase, node, op, backward, inputs, outputs, upstream, gradients, accumulated, false);
    }

    private static List<@Nullable Value> fixed(List<@Nullable Value> list) {
        return Collections.unmodifiableList(new ArrayList<>(list));
    }

    /**
     * The step with other values.
     *
     * @param others what stands in the place of a value; those that it does not name stay
     */
    public Step with(Map<Value, Value> others) {
        return operands().stream().noneMatch(others::containsKey)
                ? this
                : new Step(
                        phase,
                        node,
                        op,
                        backward,
                        with(inputs, others),
                        with(outputs, others),
                        with(upstream, others),
                        with(gradients, others),
                        accumulated,
                        repeats);
    }

    /**
     * The step with other inputs.
     *
     * @param others in the operator's order; null where absent
     */
    public Step withInputs(List<@Nullable Value> others) {
        return new Step(phase, node, op, backward, others, outputs, upstream, gradients, accumulated, repeats);
    }

    /** The step with another operator, which has the same operands. */
    public Step with(Op other) {
        return new Step(phase, node, other, backward, inputs, outputs, upstream, gradients, accumulated, repeats);
    }

    /** The step that adds only the gradients of these inputs, and writes the others in the place of what is there. */
    public Step adding(Set<Integer> inputsAdded) {
        return new Step(phase, node, op, backward, inputs, outputs, upstream, gradients, inputsAdded, repeats);
    }

    private static List<@Nullable Value> with(List<@Nullable Value> all, Map<Value, Value> others) {
        List<@Nullable Value> changed = new ArrayList<>();
        for (Value v : all) {
            changed.add(v == null ? null : others.getOrDefault(v, v));
        }
        return changed;
    }

    /** Results of the step: outputs and saved values, or in backward the gradients; null where absent. */
    public List<@Nullable Value> results() {
        return backward ? gradients : outputs;
    }

    /** All values the step reads or writes, in a fixed order, possibly with repetitions. */
    public List<Value> operands() {
        List<Value> all = new ArrayList<>();
        for (List<@Nullable Value> list : List.of(inputs, outputs, upstream, gradients)) {
            for (Value v : list) {
                if (v != null) {
                    all.add(v);
                }
            }
        }
        return all;
    }

    /** Whether the step computes nothing: its result is a view of an operand's memory ({@link Op#isView}). */
    public boolean isView() {
        return op.isView();
    }
}
