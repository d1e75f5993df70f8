package dev.octet.trainer.activation;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.states.CopyStates;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Repeats blocks of forward steps in backward, so that their results need not be kept. The steps of a block that backward depends on run again, in their order, before
 * the first backward step that reads one of their results, and write fresh values; what they read from outside the block is kept. So each step is repeated at most
 * once, from the operands that it had, and computes the same bits.
 *
 * <p>A repeated step changes no state ({@link Op#again}); a step that could not do without is not repeated. States that it reads and that another step changes
 * meanwhile are copied in forward: delayed scaling rolls its scales between forward and backward, and the codes of backward are to be those of forward.
 *
 * <p>Values that a backward step outside the block's home reads are kept as well: they would call the block back long before its own backward begins.
 */
final class Repetition {
    private final Tape tape;
    private final List<Step> forward;
    private final List<Step> backward;
    private final int[] blocks;
    private final int[] homes;
    private final boolean[] repeated;
    private final Set<Value> kept = new HashSet<>();

    /**
     * @param blocks of each forward step, from 0; -1 for steps that are not repeated
     * @param homes of each forward step; the steps of a block have one home
     */
    Repetition(Tape tape, int[] blocks, int[] homes) {
        this.tape = tape;
        this.blocks = blocks;
        this.homes = homes;
        this.forward = tape.forward();
        this.backward = tape.backward();
        this.repeated = new boolean[forward.size()];
        choose();
    }

    /** Whether a step can run again without a trace. */
    private static boolean canRepeat(Step step) {
        List<Value> made = results(step);
        return step.op().isRepeatable() && made.stream().allMatch(v -> v.role() == ValueRole.TEMPORARY);
    }

    /** What the repeated form of a step makes, as the step's own values. */
    private static List<Value> results(Step step) {
        Op op = step.op().again();
        List<Value> made = new ArrayList<>();
        for (Value v :
                step.outputs().subList(0, op.outputs().size() + op.saved().size())) {
            if (v == null) {
                throw new IllegalStateException("a forward step without a result: " + step.node());
            }
            made.add(v);
        }
        return made;
    }

    /** What the repeated form of a step reads: without states that only backward or the first form reads. */
    private static List<@Nullable Value> operands(Step step) {
        Op op = step.op().again();
        List<@Nullable Value> read = new ArrayList<>();
        for (int i = 0; i < step.inputs().size(); i++) {
            read.add(op.forwardReadsInput(i) ? step.inputs().get(i) : null);
        }
        return read;
    }

    /** Decides, from the last forward step to the first, which run again: their readers are all known by then. */
    private void choose() {
        int values = tape.program().values().size();
        boolean[] readInside = new boolean[values];
        boolean[] readOutside = new boolean[values];
        for (int k = 0; k < backward.size(); k++) {
            int home = tape.twin(k) < 0 ? -1 : homes[tape.twin(k)];
            for (Value v : Tape.reads(backward.get(k))) {
                int maker = tape.maker(v);
                if (maker >= 0) {
                    (homes[maker] == home ? readInside : readOutside)[v.id()] = true;
                }
            }
        }
        int[] readers = new int[values];
        Arrays.fill(readers, -1);
        for (int i = forward.size() - 1; i >= 0; i--) {
            Step s = forward.get(i);
            if (blocks[i] < 0 || !canRepeat(s)) {
                continue;
            }
            boolean needed = false;
            for (Value v : results(s)) {
                Value root = tape.root(v);
                if (readOutside[v.id()] || root.role() != ValueRole.TEMPORARY || tape.isOutput(root)) {
                    kept.add(root);
                }
                needed |= !kept.contains(root) && (readInside[v.id()] || readers[v.id()] == blocks[i]);
            }
            repeated[i] = needed;
            if (needed) {
                for (Value v : operands(s)) {
                    int maker = v == null ? -1 : tape.maker(v);
                    if (v != null && maker >= 0) {
                        if (blocks[maker] == blocks[i]) {
                            readers[v.id()] = blocks[i];
                        } else {
                            kept.add(tape.root(v));
                        }
                    }
                }
            }
        }
    }

    /** Whether forward step {@code i} runs again. */
    boolean isRepeated(int i) {
        return repeated[i];
    }

    /** The program with the repeated steps; the program itself where there are none. */
    Program build() {
        return new Writer().write();
    }

    private final class Writer {
        private final Program program = tape.program();
        private final List<Value> values = new ArrayList<>(program.values());
        /** Fresh values by the values of forward that they repeat. */
        private final Map<Value, Value> fresh = new HashMap<>();
        /** Copies of states, by the state and the number of changes before it is read. */
        private final Map<Value, TreeMap<Integer, Value>> copies = new LinkedHashMap<>();

        private final Map<Value, TreeSet<Integer>> changes = new HashMap<>();

        private Value value(String name, OperandType type) {
            Value v = new Value(values.size(), name, type, ValueRole.TEMPORARY);
            values.add(v);
            return v;
        }

        Program write() {
            for (int i = 0; i < forward.size(); i++) {
                noteChanges(forward.get(i), i);
            }
            for (Step s : backward) {
                noteChanges(s, forward.size());
            }
            Map<Integer, List<Step>> again = new LinkedHashMap<>();
            Map<Value, Integer> blockOf = new HashMap<>();
            for (int i = 0; i < forward.size(); i++) {
                if (repeated[i]) {
                    int block = blocks[i];
                    again.computeIfAbsent(block, _ -> new ArrayList<>()).add(again(i));
                    for (Value v : results(forward.get(i))) {
                        if (!kept.contains(tape.root(v))) {
                            blockOf.put(v, block);
                        }
                    }
                }
            }
            if (again.isEmpty()) {
                return program;
            }
            List<Step> steps = new ArrayList<>(program.steps(Phase.PREPARE));
            for (int i = 0; i < forward.size(); i++) {
                copiesBefore(i, steps);
                steps.add(forward.get(i));
            }
            for (Step s : backward) {
                for (Value v : Tape.reads(s)) {
                    Integer block = blockOf.get(v);
                    if (block != null && again.containsKey(block)) {
                        steps.addAll(again.remove(block));
                    }
                }
                steps.add(renamed(s));
            }
            steps.addAll(program.steps(Phase.UPDATE));
            return program.with(values, steps);
        }

        /** Forward steps, by number, after which a lasting value is another; after all of them: in backward. */
        private void noteChanges(Step step, int number) {
            for (Value v : step.results()) {
                if (v != null && v.role() != ValueRole.TEMPORARY) {
                    changes.computeIfAbsent(v, _ -> new TreeSet<>()).add(number);
                }
            }
        }

        private Step again(int i) {
            Step s = forward.get(i);
            List<@Nullable Value> inputs = new ArrayList<>();
            for (Value v : operands(s)) {
                inputs.add(
                        v == null
                                ? null
                                : v.role() == ValueRole.TEMPORARY ? fresh.getOrDefault(v, v) : unchanged(v, i));
            }
            List<@Nullable Value> outputs = new ArrayList<>();
            for (Value v : results(s)) {
                Value made = value("again:" + v.name(), v.type());
                outputs.add(made);
                if (!kept.contains(tape.root(v))) {
                    fresh.put(v, made);
                }
            }
            return new Step(
                    Phase.BACKWARD,
                    s.node(),
                    s.op().again(),
                    false,
                    inputs,
                    outputs,
                    List.of(),
                    List.of(),
                    Set.of(),
                    true);
        }

        /** A lasting value as forward step {@code i} read it: itself where nothing changes it from then on. */
        private Value unchanged(Value v, int i) {
            TreeSet<Integer> all = changes.getOrDefault(v, new TreeSet<>());
            if (all.ceiling(i) == null) {
                return v;
            }
            // copied right after the last change before, so that copies lie together at the beginning of forward
            Integer before = all.lower(i);
            return copies.computeIfAbsent(v, _ -> new TreeMap<>())
                    .computeIfAbsent(before == null ? 0 : before + 1, _ -> value("kept:" + v.name(), v.type()));
        }

        private void copiesBefore(int i, List<Step> steps) {
            List<@Nullable Value> from = new ArrayList<>();
            List<@Nullable Value> to = new ArrayList<>();
            List<OperandType> types = new ArrayList<>();
            copies.forEach((state, all) -> {
                Value copy = all.get(i);
                if (copy != null) {
                    from.add(state);
                    to.add(copy);
                    types.add(state.type());
                }
            });
            if (!from.isEmpty()) {
                CopyStates op = new CopyStates(types);
                steps.add(new Step(Phase.FORWARD, "recompute", op, false, from, to, List.of(), List.of(), Set.of()));
            }
        }

        private Step renamed(Step s) {
            if (Tape.reads(s).stream().noneMatch(fresh::containsKey)) {
                return s;
            }
            return new Step(
                    s.phase(),
                    s.node(),
                    s.op(),
                    s.backward(),
                    renamed(s.inputs()),
                    s.backward() ? renamed(s.outputs()) : s.outputs(),
                    s.upstream(),
                    s.gradients(),
                    s.accumulated(),
                    s.repeats());
        }

        private List<@Nullable Value> renamed(List<@Nullable Value> all) {
            List<@Nullable Value> names = new ArrayList<>();
            for (Value v : all) {
                names.add(v == null ? null : fresh.getOrDefault(v, v));
            }
            return names;
        }
    }
}
