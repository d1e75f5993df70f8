package dev.octet.trainer.activation;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.host.HostCopy;
import dev.octet.trainer.op.host.HostCopy.Stage;
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

/**
 * Keeps activations in host memory: after the last forward step that reads a value its copy to the host starts, and its memory is free when the next block has computed. In
 * backward the copy back starts when the block before begins, so that it arrives while that one computes (vDNN, Rhu et al., arXiv:1602.08124, section 3). Blocks are the
 * model's {@link Layers}; in a model without layers, stretches of steps of equal length. Numbers stay the same, bit for bit.
 *
 * <p>On the device stay: values of fewer than {@link Home#LEAST_BYTES}, values that would come back before they have left, those that an update reads, and codes of FP8 Linears, whose transposes are made with them and
 * would stay there anyway.
 */
final class HostKeeping {
    private final Tape tape;
    private final List<Value> values;
    /** Block of each forward step, not falling. */
    private final int[] forwardBlocks;
    /** Block of each backward step, not rising. */
    private final int[] backwardBlocks;
    /** Number of the last forward step that touches a root. */
    private final Map<Value, Integer> lastUse = new HashMap<>();

    private final Set<Value> exempt = new HashSet<>();
    private final Map<Value, Value> returned = new HashMap<>();
    private final Set<Value> arrived = new HashSet<>();
    private final Map<Integer, List<Step>> afterForward = new HashMap<>();
    private final Map<Integer, List<Step>> beforeBackward = new HashMap<>();
    /** The step that waits for a root's copy back. */
    private final Map<Value, Step> arrivals = new LinkedHashMap<>();

    HostKeeping(Tape tape) {
        this.tape = tape;
        this.values = new ArrayList<>(tape.program().values());
        this.forwardBlocks = forwardBlocks();
        this.backwardBlocks = backwardBlocks();
    }

    /** What comes before the layers is block 0, what comes after them is the last block. */
    private int[] forwardBlocks() {
        int[] blocks = new int[tape.forward().size()];
        Layers layers = Layers.in(tape.program());
        if (layers.count() < 2) {
            int stretch = Math.max(1, (int) Math.ceil(Math.sqrt(blocks.length)));
            Arrays.setAll(blocks, i -> i / stretch);
            return blocks;
        }
        int end = blocks.length;
        while (layers.of(end - 1) == Layers.OUTSIDE) {
            end--;
        }
        int block = 0;
        for (int i = 0; i < blocks.length; i++) {
            block = i >= end ? layers.count() + 1 : Math.max(block, layers.of(i) + 1);
            blocks[i] = block;
        }
        return blocks;
    }

    private int[] backwardBlocks() {
        int[] blocks = new int[tape.backward().size()];
        int block = forwardBlocks.length == 0 ? 0 : forwardBlocks[forwardBlocks.length - 1];
        for (int k = 0; k < blocks.length; k++) {
            int twin = tape.twin(k);
            block = twin < 0 ? block : Math.min(block, forwardBlocks[twin]);
            blocks[k] = block;
        }
        return blocks;
    }

    /** The program whose values leave; the program itself where none does. */
    Program build() {
        List<Step> forward = tape.forward();
        List<Step> backward = tape.backward();
        for (int i = 0; i < forward.size(); i++) {
            for (Value v : forward.get(i).operands()) {
                lastUse.put(tape.root(v), i);
            }
        }
        for (Step s : tape.program().steps(Phase.UPDATE)) {
            s.operands().forEach(v -> exempt.add(tape.root(v)));
        }
        for (Step s : backward) {
            if (s.op() instanceof Fp8Linear) {
                Tape.reads(s).stream().filter(v -> v.type().dtype().isFloat8()).forEach(v -> exempt.add(tape.root(v)));
            }
        }
        for (int k = 0; k < backward.size(); k++) {
            for (Value v : Tape.reads(backward.get(k))) {
                Value root = tape.root(v);
                if (tape.maker(v) >= 0 && canLeave(root)) {
                    exempt.add(root); // seen: only the first step that reads it counts
                    send(root, k);
                }
            }
        }
        return arrivals.isEmpty() ? tape.program() : written();
    }

    private boolean canLeave(Value root) {
        return root.role() == ValueRole.TEMPORARY
                && root.type().byteSize() >= Home.LEAST_BYTES
                && tape.maker(root) >= 0
                && !tape.isOutput(root)
                && !exempt.contains(root);
    }

    /** Plans the round trip of a value that backward step {@code first} is the first to read. */
    private void send(Value root, int first) {
        int last = lastUse.getOrDefault(root, 0);
        int gone = last;
        while (gone + 1 < forwardBlocks.length && forwardBlocks[gone + 1] <= forwardBlocks[last] + 1) {
            gone++;
        }
        int fetched = first;
        while (fetched > 0 && backwardBlocks[fetched - 1] <= backwardBlocks[first] + 1) {
            fetched--;
        }
        if (gone == forwardBlocks.length - 1 && fetched == 0) {
            return;
        }
        Value there = value("host:" + root.name(), root.type(), ValueRole.HOSTED);
        Value back = value("back:" + root.name(), root.type(), ValueRole.TEMPORARY);
        returned.put(root, back);
        afterForward
                .computeIfAbsent(last, _ -> new ArrayList<>())
                .add(step(root, Stage.LEAVE, List.of(root), List.of(there)));
        afterForward
                .computeIfAbsent(gone, _ -> new ArrayList<>())
                .add(step(root, Stage.LEFT, List.of(root, there), List.of()));
        beforeBackward
                .computeIfAbsent(fetched, _ -> new ArrayList<>())
                .add(step(root, Stage.COME_BACK, List.of(there), List.of(back)));
        arrivals.put(root, step(root, Stage.BACK, List.of(there, back), List.of()));
    }

    private Value value(String name, OperandType type, ValueRole role) {
        Value v = new Value(values.size(), name, type, role);
        values.add(v);
        return v;
    }

    private Step step(Value root, Stage stage, List<Value> from, List<Value> to) {
        boolean isForward = stage == Stage.LEAVE || stage == Stage.LEFT;
        String node = tape.forward().get(tape.maker(root)).node();
        return Tape.step(
                isForward ? Phase.FORWARD : Phase.BACKWARD, node, new HostCopy(root.type(), stage), from, to, true);
    }

    private Program written() {
        Program program = tape.program();
        List<Step> steps = new ArrayList<>(program.steps(Phase.PREPARE));
        for (int i = 0; i < tape.forward().size(); i++) {
            steps.add(tape.forward().get(i));
            steps.addAll(afterForward.getOrDefault(i, List.of()));
        }
        for (int k = 0; k < tape.backward().size(); k++) {
            Step s = tape.backward().get(k);
            steps.addAll(beforeBackward.getOrDefault(k, List.of()));
            Map<Value, Value> names = new HashMap<>();
            for (Value v : Tape.reads(s)) {
                if (tape.maker(v) >= 0 && arrivals.containsKey(tape.root(v))) {
                    names.put(v, onDevice(v, steps));
                }
            }
            steps.add(names.isEmpty() ? s : Tape.renamed(s, names));
        }
        steps.addAll(program.steps(Phase.UPDATE));
        return program.with(values, steps);
    }

    /** A value as backward finds it, complete; views are made again where they are read first. */
    private Value onDevice(Value v, List<Step> steps) {
        Value root = tape.root(v);
        Step arrival = arrivals.get(root);
        if (arrival != null && arrived.add(root)) {
            steps.add(arrival);
        }
        Value known = returned.get(v);
        if (known != null) {
            return known;
        }
        Step view = tape.forward().get(tape.maker(v));
        Value origin = view.inputs().getFirst();
        if (!view.isView() || origin == null) {
            throw new IllegalStateException(v + " is no view");
        }
        Value made = value("back:" + v.name(), v.type(), ValueRole.TEMPORARY);
        steps.add(Tape.step(
                Phase.BACKWARD, view.node(), view.op(), List.of(onDevice(origin, steps)), List.of(made), true));
        returned.put(v, made);
        return made;
    }
}
