package dev.octet.trainer.activation;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.op.fp8.DequantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.loss.KlDivergenceLoss;
import dev.octet.trainer.op.loss.MixedLoss;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLoss;
import dev.octet.trainer.op.loss.RowLoss;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Keeps activations in a narrower type: after the last forward step that reads a value it is narrowed, before the first backward step that does it is widened. Backward
 * then differentiates at rounded values; forward and the loss stay as they are.
 *
 * <p>Kept as they are: integers and truth values, codes, what a loss reads, what an operator saves for its own backward (means, deviations, the logarithms of sums), and
 * values of fewer than {@value #SMALL} elements.
 */
final class NarrowKeeping {
    /** Elements of a group that shares a scale: COAT's for optimizer states and linear layers; the scales are 3 % of the codes. */
    private static final int GROUP = 128;

    private static final int SMALL = 1024;

    private final Tape tape;
    private final Kept kept;
    private final List<Value> values;
    /** Number of the last forward step that touches a root. */
    private final Map<Value, Integer> lastUse = new HashMap<>();

    private final Set<Value> exempt = new HashSet<>();
    private final Map<Value, List<Value>> narrowed = new LinkedHashMap<>();
    private final Map<Value, Value> widened = new HashMap<>();

    NarrowKeeping(Tape tape, Kept kept) {
        this.tape = tape;
        this.kept = kept;
        this.values = new ArrayList<>(tape.program().values());
    }

    private Value value(String name, OperandType type) {
        Value v = new Value(values.size(), name, type, ValueRole.TEMPORARY);
        values.add(v);
        return v;
    }

    /** The program that keeps less; the program itself where nothing is large enough. */
    Program build() {
        List<Step> forward = tape.forward();
        for (int i = 0; i < forward.size(); i++) {
            Step s = forward.get(i);
            for (Value v : s.operands()) {
                lastUse.put(tape.root(v), i);
            }
            for (Value saved :
                    s.outputs().subList(s.op().outputs().size(), s.outputs().size())) {
                if (saved != null) {
                    exempt.add(tape.root(saved));
                }
            }
        }
        for (Step s : tape.backward()) {
            if (isLoss(s.op())) {
                Tape.reads(s).forEach(v -> exempt.add(tape.root(v)));
            }
        }
        Map<Integer, List<Step>> after = new HashMap<>();
        for (Step s : tape.backward()) {
            for (Value v : Tape.reads(s)) {
                Value root = tape.root(v);
                if (tape.maker(v) >= 0 && isNarrowed(root) && !narrowed.containsKey(root)) {
                    int last = lastUse.getOrDefault(root, 0);
                    after.computeIfAbsent(last, _ -> new ArrayList<>()).add(narrow(root));
                }
            }
        }
        if (narrowed.isEmpty()) {
            return tape.program();
        }
        Program program = tape.program();
        List<Step> steps = new ArrayList<>(program.steps(Phase.PREPARE));
        for (int i = 0; i < forward.size(); i++) {
            steps.add(forward.get(i));
            steps.addAll(after.getOrDefault(i, List.of()));
        }
        for (Step s : tape.backward()) {
            Map<Value, Value> names = new HashMap<>();
            for (Value v : Tape.reads(s)) {
                if (tape.maker(v) >= 0 && narrowed.containsKey(tape.root(v))) {
                    names.put(v, wide(v, steps));
                }
            }
            steps.add(names.isEmpty() ? s : Tape.renamed(s, names));
        }
        steps.addAll(program.steps(Phase.UPDATE));
        return program.with(values, steps);
    }

    private static boolean isLoss(Op op) {
        return op instanceof KlDivergenceLoss
                || op instanceof MixedLoss
                || op instanceof NegativeLogLikelihoodLoss
                || op instanceof RowLoss
                || op instanceof SoftmaxCrossEntropyLoss;
    }

    private boolean isNarrowed(Value root) {
        DType type = root.type().dtype();
        boolean isWider = type == DType.F32 || (kept == Kept.FP8 && (type == DType.BF16 || type == DType.F16));
        return isWider
                && root.role() == ValueRole.TEMPORARY
                && root.type().count() >= SMALL
                && !tape.isOutput(root)
                && !exempt.contains(root);
    }

    private CodedMatrix form(Value root) {
        return DequantizeFp8.kept(root.type(), GROUP);
    }

    private String node(Value root) {
        return tape.forward().get(tape.maker(root)).node();
    }

    private Step narrow(Value root) {
        Op op = kept == Kept.BF16 ? new Cast(root.type(), DType.BF16) : new QuantizeFp8(root.type(), form(root), false);
        List<Value> made = new ArrayList<>();
        for (OperandType type : op.outputs()) {
            made.add(value("kept:" + root.name(), type));
        }
        narrowed.put(root, made);
        return Tape.step(Phase.FORWARD, node(root), op, List.of(root), made, false);
    }

    /** A value as backward finds it; the steps that make it are added where it is read first. */
    private Value wide(Value v, List<Step> steps) {
        Value known = widened.get(v);
        if (known != null) {
            return known;
        }
        Value root = tape.root(v);
        Value made = value("wide:" + v.name(), v.type());
        if (root.equals(v)) {
            List<Value> from = narrowed.getOrDefault(root, List.of());
            Op op = kept == Kept.BF16
                    ? new Cast(from.getFirst().type(), root.type().dtype())
                    : new DequantizeFp8(root.type(), form(root));
            steps.add(Tape.step(Phase.BACKWARD, node(root), op, from, List.of(made), true));
        } else {
            Step view = tape.forward().get(tape.maker(v));
            Value origin = view.inputs().getFirst();
            if (!view.isView() || origin == null) {
                throw new IllegalStateException(v + " is no view");
            }
            steps.add(Tape.step(
                    Phase.BACKWARD, view.node(), view.op(), List.of(wide(origin, steps)), List.of(made), true));
        }
        widened.put(v, made);
        return made;
    }
}
