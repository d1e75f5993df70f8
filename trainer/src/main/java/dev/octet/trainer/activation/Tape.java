package dev.octet.trainer.activation;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** What passes ask of a training program: who makes a value, and which forward step a backward step belongs to. */
final class Tape {
    private final Program program;
    private final Roots roots;
    private final List<Step> forward;
    private final List<Step> backward;
    private final int[] makers;
    private final int[] twins;
    private final Set<Value> outputs;

    Tape(Program program) {
        this.program = program;
        this.roots = Roots.of(program);
        this.forward = program.steps(Phase.FORWARD);
        this.backward = program.steps(Phase.BACKWARD);
        this.makers = new int[program.values().size()];
        Arrays.fill(makers, -1);
        Map<List<Object>, Integer> byOperator = new HashMap<>();
        Map<String, Integer> byNode = new HashMap<>();
        for (int i = 0; i < forward.size(); i++) {
            Step s = forward.get(i);
            byOperator.putIfAbsent(List.of(s.node(), s.op()), i);
            byNode.putIfAbsent(s.node(), i);
            for (Value v : s.outputs()) {
                if (v != null && v.role() == ValueRole.TEMPORARY) {
                    makers[v.id()] = i;
                }
            }
        }
        this.twins = new int[backward.size()];
        for (int k = 0; k < twins.length; k++) {
            Step s = backward.get(k);
            Integer twin = byOperator.get(List.of(s.node(), s.op()));
            twins[k] = twin != null ? twin : byNode.getOrDefault(s.node(), -1);
        }
        this.outputs = program.outputs().values().stream().map(roots::of).collect(Collectors.toSet());
    }

    Program program() {
        return program;
    }

    List<Step> forward() {
        return forward;
    }

    List<Step> backward() {
        return backward;
    }

    /** The value whose memory another is in. */
    Value root(Value value) {
        return roots.of(value);
    }

    /** Number of the forward step that makes a temporary value; -1 for other values. */
    int maker(Value value) {
        return makers[value.id()];
    }

    /** Number of the forward step that backward step {@code k} differentiates; -1 where there is none. */
    int twin(int k) {
        return twins[k];
    }

    /** Whether the memory of a root is that of an output, which lives until the next micro-batch. */
    boolean isOutput(Value root) {
        return outputs.contains(root);
    }

    /** What a backward step reads that is not a gradient. */
    static List<Value> reads(Step step) {
        List<@Nullable Value> results = step.backward() ? step.outputs() : List.of();
        return java.util.stream.Stream.concat(step.inputs().stream(), results.stream())
                .filter(v -> v != null)
                .toList();
    }

    /**
     * A step that is not backward.
     *
     * @param repeats see {@link Step#repeats}
     */
    static Step step(Phase phase, String node, Op op, List<Value> from, List<Value> to, boolean repeats) {
        return new Step(
                phase,
                node,
                op,
                false,
                new ArrayList<>(from),
                new ArrayList<>(to),
                List.of(),
                List.of(),
                Set.of(),
                repeats);
    }

    /** A step that reads other values in the place of some. */
    static Step renamed(Step s, Map<Value, Value> names) {
        return new Step(
                s.phase(),
                s.node(),
                s.op(),
                s.backward(),
                renamed(s.inputs(), names),
                s.backward() ? renamed(s.outputs(), names) : s.outputs(),
                s.upstream(),
                s.gradients(),
                s.accumulated(),
                s.repeats());
    }

    /** Values, others in the place of some. */
    static List<@Nullable Value> renamed(List<@Nullable Value> all, Map<Value, Value> names) {
        List<@Nullable Value> list = new ArrayList<>();
        for (Value v : all) {
            list.add(v == null ? null : names.getOrDefault(v, v));
        }
        return list;
    }
}
