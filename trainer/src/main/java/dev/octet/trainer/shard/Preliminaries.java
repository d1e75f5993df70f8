package dev.octet.trainer.shard;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/**
 * Forward steps that follow from inputs and constants alone: masks, positions, rotations. Each stage of a pipeline computes those that it needs for itself, since all layers
 * read them.
 *
 * @param steps by identity
 * @param results what they compute
 */
record Preliminaries(Set<Step> steps, Set<Value> results) {
    static Preliminaries of(Program program) {
        Set<Step> steps = Collections.newSetFromMap(new IdentityHashMap<>());
        Set<Value> results = new HashSet<>();
        for (Step step : program.steps(Phase.FORWARD)) {
            boolean follows = step.inputs().stream().allMatch(v -> v == null || isGiven(v, results));
            List<Value> made = step.operands();
            step.inputs().forEach(made::remove);
            if (follows && !made.isEmpty() && made.stream().allMatch(v -> v.role() == ValueRole.TEMPORARY)) {
                steps.add(step);
                results.addAll(made);
            }
        }
        return new Preliminaries(steps, results);
    }

    private static boolean isGiven(Value v, Set<Value> results) {
        return switch (v.role()) {
            case INPUT, CONSTANT -> true;
            case TEMPORARY -> results.contains(v);
            case PARAMETER, STORED, STATE, GRADIENT, PREPARED, HOSTED -> false;
        };
    }

    boolean contains(Step step) {
        return steps.contains(step);
    }
}
