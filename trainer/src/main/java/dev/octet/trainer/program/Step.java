package dev.octet.trainer.program;

import dev.octet.trainer.kernel.Op;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One call of an operator's twin.
 *
 * @param node id of the graph's node this comes from, for messages
 * @param backward whether the backward half is called
 * @param inputs as the operator numbers them; null where absent, or backward and not read
 * @param outputs the operator's outputs and saved values; null where backward does not read them
 * @param upstream backward only: gradients of the outputs; null where there is none
 * @param gradients backward only: where gradients of the inputs go; null where not wanted
 * @param accumulated numbers of the inputs whose gradient is added to what is there
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
        Set<Integer> accumulated) {
    public Step {
        inputs = fixed(inputs);
        outputs = fixed(outputs);
        upstream = fixed(upstream);
        gradients = fixed(gradients);
        accumulated = Set.copyOf(accumulated);
    }

    private static List<@Nullable Value> fixed(List<@Nullable Value> list) {
        return Collections.unmodifiableList(new ArrayList<>(list));
    }

    /** What the step computes: outputs and saved values, or backward the gradients; null where there is none. */
    public List<@Nullable Value> results() {
        return backward ? gradients : outputs;
    }

    /** Everything the step reads or writes, in a fixed order; a value may come twice. */
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

    /** Whether nothing is computed: the result is another name of an operand's memory ({@link Op#isView}). */
    public boolean isView() {
        return op.isView();
    }
}
