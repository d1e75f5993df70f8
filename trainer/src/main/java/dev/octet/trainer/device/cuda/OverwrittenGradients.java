package dev.octet.trainer.device.cuda;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Gradients that need not be zero before a step: the first thing that backward does with them is to add a step's contribution. For a step's first micro-batch that
 * contribution is written in their place.
 *
 * @param steps what the first micro-batch does instead of backward steps, by those
 * @param values gradients that it overwrites
 */
record OverwrittenGradients(Map<Step, Step> steps, Set<Value> values) {
    /** None: all gradients are added to. */
    static final OverwrittenGradients NONE = new OverwrittenGradients(Map.of(), Set.of());

    /**
     * Those of a program.
     *
     * @param root the value whose memory a value uses
     */
    static OverwrittenGradients of(Program program, Function<Value, Value> root) {
        return of(program, root, _ -> true);
    }

    private static OverwrittenGradients of(Program program, Function<Value, Value> root, Predicate<Step> may) {
        IdentityHashMap<Step, Step> steps = new IdentityHashMap<>();
        Set<Value> values = new HashSet<>();
        Set<Value> touched = new HashSet<>();
        for (Step s : program.steps(Phase.BACKWARD)) {
            if (s.isView()) {
                continue;
            }
            List<Value> operands = s.operands().stream().map(root).toList();
            Set<Integer> added = new HashSet<>();
            for (int i : s.accumulated()) {
                Value given = s.gradients().get(i);
                Value gradient = given == null ? null : root.apply(given);
                boolean isFirst = gradient != null
                        && gradient.role() == ValueRole.GRADIENT
                        && !touched.contains(gradient)
                        && operands.stream().filter(gradient::equals).count() == 1
                        && may.test(s);
                if (isFirst) {
                    values.add(gradient);
                } else {
                    added.add(i);
                }
            }
            if (added.size() < s.accumulated().size()) {
                steps.put(s, s.adding(added));
            }
            touched.addAll(operands);
        }
        return new OverwrittenGradients(steps, values);
    }

    /** Without what some steps overwrite. */
    OverwrittenGradients without(Program program, Function<Value, Value> root, Predicate<Step> others) {
        return of(program, root, s -> steps.containsKey(s) && !others.test(s));
    }

    /** The step as the first micro-batch has it. */
    Step first(Step step) {
        return steps.getOrDefault(step, step);
    }
}
