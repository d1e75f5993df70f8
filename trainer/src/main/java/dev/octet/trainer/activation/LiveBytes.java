package dev.octet.trainer.activation;

import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;

/** When the memory of each value of a program is in use: what a plan of its memory without gaps needs, step by step. */
final class LiveBytes {
    private final Program program;
    private final Roots roots;
    private final int[] first;
    private final int[] last;

    LiveBytes(Program program) {
        this.program = program;
        this.roots = Roots.of(program);
        int count = program.values().size();
        first = new int[count];
        last = new int[count];
        Arrays.fill(first, Integer.MAX_VALUE);
        Arrays.fill(last, -1);
        List<Step> steps = program.steps();
        for (int k = 0; k < steps.size(); k++) {
            for (Value v : steps.get(k).operands()) {
                int root = roots.of(v).id();
                first[root] = Math.min(first[root], k);
                last[root] = Math.max(last[root], k);
            }
        }
        for (Value v : program.inputs().values()) {
            first[roots.of(v).id()] = 0;
            last[roots.of(v).id()] = steps.size() - 1;
        }
        for (Value v : program.outputs().values()) {
            last[roots.of(v).id()] = steps.size() - 1;
        }
    }

    /** Number of the last step that touches a root; -1 where none does. */
    int last(Value root) {
        return last[root.id()];
    }

    /** Bytes in use at each step, of the roots that a predicate accepts. */
    long[] profile(Predicate<Value> counted) {
        int steps = program.steps().size();
        long[] change = new long[steps + 1];
        for (Value v : program.values()) {
            if (last[v.id()] >= 0 && v.role().isInArena() && roots.of(v).equals(v) && counted.test(v)) {
                change[first[v.id()]] += MemoryPlan.bytes(v);
                change[last[v.id()] + 1] -= MemoryPlan.bytes(v);
            }
        }
        long[] live = new long[steps];
        long now = 0;
        for (int k = 0; k < steps; k++) {
            now += change[k];
            live[k] = now;
        }
        return live;
    }

    /** The most bytes in use at any step: a lower bound of {@link MemoryPlan#arenaBytes}. */
    static long peak(Program program) {
        return Arrays.stream(new LiveBytes(program).profile(v -> true)).max().orElse(0);
    }

    /** Whether a value is computed for a micro-batch, as opposed to fed. */
    static boolean isComputed(Value v) {
        return v.role() == ValueRole.TEMPORARY;
    }
}
