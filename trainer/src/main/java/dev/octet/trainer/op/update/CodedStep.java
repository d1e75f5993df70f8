package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntToDoubleFunction;

/**
 * A step of an optimizer whose tensors are kept in any form. Buffers and parameter are read as F32, moved on, and written back; the parameter moves by the buffers
 * as they are before they are rounded.
 *
 * <p>Where one scale belongs to a tensor, the elements are computed twice: once for the largest magnitude, then, from the same codes, to be written with the new scale.
 *
 * <p>Inputs: the parts of p ({@link StateForm#parts}), of the gradient, of each buffer, then the scalars lr, t, factor, whether the step is left out (1, then nothing
 * changes), and for a step that measures its rate what is measured. Outputs: the parts of p and of each buffer, which lie where the inputs do.
 *
 * @param rule what is computed
 * @param p form of the parameter
 * @param g form of its gradient
 * @param buffers form of each buffer
 * @param seed of what stochastic forms draw
 * @param of the whole tensor, of which ranks may have parts: one scale belongs to all of them
 */
public record CodedStep(ElementStep rule, StateForm p, StateForm g, List<StateForm> buffers, long seed, SharedTensor of)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CodedStep> ENTRY =
            UpdateOp.entry(CodedStep.class, CodedReference::step, new CodedStepCpu(), new CodedStepCuda());

    /** Each buffer of the rule has a form. */
    public CodedStep {
        buffers = List.copyOf(buffers);
        if (buffers.size() != rule.buffers()) {
            throw new IllegalArgumentException(
                    rule.type() + " has " + rule.buffers() + " buffers, not " + buffers.size());
        }
    }

    @Override
    public String type() {
        return rule.type();
    }

    /** Shape of the parameter, its gradient and the buffers. */
    OperandType tensor() {
        return rule.p();
    }

    /** The kept tensors: p, then the buffers. */
    List<StateForm> kept() {
        List<StateForm> all = new ArrayList<>(List.of(p));
        all.addAll(buffers);
        return all;
    }

    private int parts(StateForm form) {
        return form.parts(tensor()).size();
    }

    /** The first input of the gradient. */
    int gradientInput() {
        return parts(p);
    }

    /** The first input of a kept tensor. */
    int input(int kept) {
        if (kept == 0) {
            return 0;
        }
        int at = parts(p) + parts(g);
        for (int i = 1; i < kept; i++) {
            at += parts(buffers.get(i - 1));
        }
        return at;
    }

    /** The first output of a kept tensor. */
    int output(int kept) {
        return kept == 0 ? 0 : input(kept) - parts(g);
    }

    /** The input that holds the learning rate; the other scalars follow. */
    int scalarInput() {
        return input(buffers.size() + 1);
    }

    /** Number of outputs. */
    int outputCount() {
        return output(buffers.size() + 1);
    }

    /** The scalars, read by the index of the input. */
    StepScalars scalars(IntToDoubleFunction read) {
        int at = scalarInput();
        double lr = read.applyAsDouble(at);
        return new StepScalars(
                rule.measuresRate() ? rule.rate(lr, read.applyAsDouble(at + 4)) : lr,
                read.applyAsDouble(at + 1),
                read.applyAsDouble(at + 2),
                read.applyAsDouble(at + 3) != 0);
    }

    /** Key of what a kept tensor draws in a step. */
    long key(int kept, double t) {
        return CounterRandom.key(CounterRandom.key(seed, kept), (long) t);
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>();
        for (StateForm form : kept()) {
            form.parts(tensor()).forEach(part -> all.add(part.type()));
        }
        return all;
    }
}
