package dev.octet.trainer.activation;

import dev.octet.trainer.kernel.Op;
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
import org.jspecify.annotations.Nullable;

/**
 * Moves casts and codes of weights that one block alone reads from {@link Phase#PREPARE} into the block's forward, where {@link Repetition} finds them as steps like
 * any others: they live through the block's forward and again through its backward, not through the whole step. A weight does not change within a step, so that each
 * cast gives the same bits.
 *
 * <p>A cast that changes a state, as delayed scaling's records its amax, stays in PREPARE, too, where it does so once a step and leaves its codes to nobody. What
 * forward reads is made without a trace ({@link Op#again}), from a copy of the scale that PREPARE had: with several micro-batches the scales roll after each of them.
 */
final class TransientCasts {
    private static final int UNREAD = -1;
    private static final int SHARED = -2;

    private final Tape tape;
    private final Program program;
    private final int[] blocks;
    private final int[] homes;
    private final Set<Value> changed = new HashSet<>();
    private final Set<Value> outputs;
    /** Of each value: the block that alone reads it. */
    private final int[] reader;
    /** Of each value: the number of the first forward step that reads it, or whose backward does. */
    private final int[] first;

    private final List<Value> values;
    private final Map<Value, Value> copies = new LinkedHashMap<>();

    private final boolean readsStates;

    private TransientCasts(Tape tape, int[] blocks, int[] homes, boolean readsStates) {
        this.tape = tape;
        this.readsStates = readsStates;
        this.program = tape.program();
        this.blocks = blocks;
        this.homes = homes;
        this.outputs = new HashSet<>(program.outputs().values());
        this.values = new ArrayList<>(program.values());
        this.reader = new int[values.size()];
        this.first = new int[values.size()];
        Arrays.fill(reader, UNREAD);
        Arrays.fill(first, Integer.MAX_VALUE);
    }

    /**
     * All casts of weights.
     *
     * @param blocks of each forward step of the tape, as {@link Repetition} has them
     * @param homes of each forward step
     */
    static TransientCasts all(Tape tape, int[] blocks, int[] homes) {
        return new TransientCasts(tape, blocks, homes, true);
    }

    /**
     * Those that read no state that changes within a step: programs for several shapes share what PREPARE makes, and where each divides the layers in its own way, a
     * copy of a state would be of another moment.
     */
    static TransientCasts withoutStates(Tape tape, int[] blocks, int[] homes) {
        return new TransientCasts(tape, blocks, homes, false);
    }

    /** A program with the casts moved, and the blocks and homes of its forward steps. */
    @SuppressWarnings("ArrayRecordComponent") // handed on, never compared
    record Moved(Program program, int[] blocks, int[] homes) {
        Program repeated() {
            return new Repetition(new Tape(program), blocks, homes).build();
        }
    }

    /** A step that is moved, and the block it goes to. */
    private record Move(Step step, int block, int before) {}

    Moved moved() {
        readers();
        List<Step> prepare = program.steps(Phase.PREPARE);
        for (Step s : program.steps()) {
            for (Value v : s.results()) {
                if (v != null && v.role() == ValueRole.STATE && s.phase() != Phase.UPDATE) {
                    changed.add(v);
                }
            }
        }
        Map<Step, Move> moves = new HashMap<>();
        for (Step s : prepare.reversed()) {
            Move move = move(s);
            if (move != null) {
                moves.put(s, move);
            }
            for (Value v : s.inputs()) {
                if (v != null) {
                    note(v, move == null ? SHARED : move.block(), move == null ? 0 : move.before());
                }
            }
        }
        return moves.isEmpty() ? new Moved(program, blocks, homes) : write(prepare, moves);
    }

    private void readers() {
        for (int i = 0; i < blocks.length; i++) {
            for (Value v : tape.forward().get(i).operands()) {
                note(v, blocks[i] < 0 ? SHARED : blocks[i], i);
            }
        }
        for (int k = 0; k < tape.backward().size(); k++) {
            int twin = tape.twin(k);
            // a step without a forward of its own: nobody knows when it runs
            int block = twin < 0 ? SHARED : blockAt(homes[twin]);
            for (Value v : Tape.reads(tape.backward().get(k))) {
                note(v, block, Math.max(twin, 0));
            }
        }
    }

    /** The block whose home this is. */
    private int blockAt(int home) {
        for (int i = 0; i < homes.length; i++) {
            if (homes[i] == home && blocks[i] >= 0) {
                return blocks[i];
            }
        }
        return SHARED;
    }

    private void note(Value v, int block, int at) {
        int known = reader[v.id()];
        reader[v.id()] = known == UNREAD || known == block ? block : SHARED;
        first[v.id()] = Math.min(first[v.id()], at);
    }

    /** Where a step of PREPARE goes; null where it stays. */
    private @Nullable Move move(Step s) {
        if (!readsStates && s.operands().stream().anyMatch(changed::contains)) {
            return null;
        }
        Op again = s.op().again();
        int made = again.outputs().size() + again.saved().size();
        int block = UNREAD;
        int before = Integer.MAX_VALUE;
        for (int i = 0; i < s.outputs().size(); i++) {
            Value v = s.outputs().get(i);
            if (i >= made) {
                if (v != null && v.role() != ValueRole.STATE) {
                    return null;
                }
                continue;
            }
            if (v == null || v.role() != ValueRole.PREPARED || outputs.contains(v) || reader[v.id()] == SHARED) {
                return null;
            }
            if (reader[v.id()] != UNREAD) {
                if (block != UNREAD && block != reader[v.id()]) {
                    return null;
                }
                block = reader[v.id()];
                before = Math.min(before, first[v.id()]);
            }
        }
        return block == UNREAD ? null : new Move(s, block, before);
    }

    private static boolean changesStates(Step s) {
        return s.outputs().stream().anyMatch(v -> v != null && v.role() == ValueRole.STATE);
    }

    /** Whether a step that is moved runs in PREPARE as well: for the states that it changes, or for a step that does. */
    private static boolean staysToo(Step s, Set<Value> wanted) {
        return changesStates(s) || s.outputs().stream().anyMatch(v -> v != null && wanted.contains(v));
    }

    private Value value(String name, Value like, ValueRole role) {
        Value v = new Value(values.size(), name, like.type(), role);
        values.add(v);
        return v;
    }

    private Moved write(List<Step> prepare, Map<Step, Move> moves) {
        Map<Value, Value> moved = new HashMap<>();
        for (Move m : moves.values()) {
            for (Value v : m.step().outputs()) {
                if (v != null && v.role() == ValueRole.PREPARED) {
                    Value made = new Value(v.id(), v.name(), v.type(), ValueRole.TEMPORARY);
                    values.set(v.id(), made);
                    moved.put(v, made);
                }
            }
        }
        List<Step> steps = new ArrayList<>();
        TreeMap<Integer, List<Step>> casts = new TreeMap<>();
        TreeMap<Integer, Integer> blockOf = new TreeMap<>();
        // what a step that stays reads is made for it, in PREPARE, for as long as that takes
        Map<Value, Value> within = new HashMap<>();
        Set<Value> wanted = new HashSet<>();
        for (Step s : prepare.reversed()) {
            if (moves.containsKey(s) && staysToo(s, wanted)) {
                for (Value v : s.inputs()) {
                    if (v != null && moved.containsKey(v)) {
                        wanted.add(v);
                    }
                }
            }
        }
        for (Step s : prepare) {
            Move move = moves.get(s);
            if (move == null) {
                steps.add(s);
                continue;
            }
            Step cast = cast(s, moved, steps);
            casts.computeIfAbsent(move.before(), _ -> new ArrayList<>()).add(cast);
            blockOf.put(move.before(), move.block());
            if (staysToo(s, wanted)) {
                for (Value v : s.outputs()) {
                    if (v != null && moved.containsKey(v)) {
                        within.put(v, value(v.name(), v, ValueRole.TEMPORARY));
                    }
                }
                steps.add(renamed(s, within));
            }
        }
        List<Integer> newBlocks = new ArrayList<>();
        List<Integer> newHomes = new ArrayList<>();
        for (int i = 0; i < blocks.length; i++) {
            for (Step cast : casts.getOrDefault(i, List.of())) {
                steps.add(cast);
                newBlocks.add(blockOf.getOrDefault(i, blocks[i]));
                newHomes.add(homes[i]);
            }
            steps.add(renamed(tape.forward().get(i), moved));
            newBlocks.add(blocks[i]);
            newHomes.add(homes[i]);
        }
        tape.backward().forEach(s -> steps.add(renamed(s, moved)));
        steps.addAll(program.steps(Phase.UPDATE));
        Program written = program.with(values, steps);
        return new Moved(
                written,
                newBlocks.stream().mapToInt(b -> b).toArray(),
                newHomes.stream().mapToInt(h -> h).toArray());
    }

    /** A step of PREPARE as forward runs it; copies of the states that it reads are made in PREPARE. */
    private Step cast(Step s, Map<Value, Value> moved, List<Step> steps) {
        Op op = s.op().again();
        List<@Nullable Value> inputs = new ArrayList<>();
        for (int i = 0; i < s.inputs().size(); i++) {
            Value v = s.inputs().get(i);
            if (v == null || !op.forwardReadsInput(i)) {
                inputs.add(null);
            } else {
                inputs.add(changed.contains(v) ? copy(v, steps) : moved.getOrDefault(v, v));
            }
        }
        List<@Nullable Value> made = new ArrayList<>();
        for (Value v : s.outputs().subList(0, op.outputs().size() + op.saved().size())) {
            made.add(v == null ? null : moved.get(v));
        }
        return new Step(
                Phase.FORWARD, s.node(), op, false, inputs, made, List.of(), List.of(), Set.of(), changesStates(s));
    }

    private Value copy(Value state, List<Step> steps) {
        Value known = copies.get(state);
        if (known != null) {
            return known;
        }
        Value copy = value("kept:" + state.name(), state, ValueRole.PREPARED);
        copies.put(state, copy);
        CopyStates op = new CopyStates(List.of(state.type()));
        steps.add(new Step(
                Phase.PREPARE, "recompute", op, false, List.of(state), List.of(copy), List.of(), List.of(), Set.of()));
        return copy;
    }

    private static Step renamed(Step s, Map<Value, Value> names) {
        if (s.operands().stream().noneMatch(names::containsKey)) {
            return s;
        }
        return new Step(
                s.phase(),
                s.node(),
                s.op(),
                s.backward(),
                Tape.renamed(s.inputs(), names),
                Tape.renamed(s.outputs(), names),
                s.upstream(),
                s.gradients(),
                s.accumulated(),
                s.repeats());
    }
}
