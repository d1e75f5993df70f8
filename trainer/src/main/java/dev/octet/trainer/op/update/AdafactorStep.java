package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.rule.AdafactorRule;
import java.util.ArrayList;
import java.util.List;

/**
 * One step of Adafactor (Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5) as {@link AdafactorRule} has it; t is the step's number from 1:
 *
 * <pre>
 * g = gradient · factor          s = g² + added          β = 1 - t^decayRate
 * a matrix:  row = β row + (1 - β) mean of s over columns      col = β col + (1 - β) mean of s over rows      v = row col / max(mean of row, leastMean)
 * a vector:  v = β v + (1 - β) s
 * u = g / √max(v, leastMoment)          u /= max(1, RMS(u) / clip)
 * rate = lr, or min(.., 1 / √t); times max(eps2, RMS(p)) with scaleParameter
 * u *= rate          with beta1: m = β₁ m + (1 - β₁) u, u = m
 * p = p · (1 - weightDecay · rate) - u            torch: lr in place of rate
 * </pre>
 *
 * <p>Inputs: p, gradient, then the scalars lr, t, factor, whether the step is left out (1, then nothing changes), then the buffers of
 * {@link AdafactorRule#memory}. Outputs: p and the buffers, which lie where the inputs do.
 *
 * <p>Where ranks have parts of the parameter, means are those of the whole: they add up sums of squares over the axis that they share.
 *
 * @param p type of the parameter
 * @param of the whole parameter, of which ranks may have parts
 */
public record AdafactorStep(OperandType p, AdafactorRule rule, double weightDecay, SharedTensor of)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<AdafactorStep> ENTRY = UpdateOp.entry(
            AdafactorStep.class, AdafactorReference::step, new AdafactorStepCpu(), new AdafactorStepCuda());

    /** Input that holds the first buffer. */
    static final int BUFFERS = 6;

    @Override
    public String type() {
        return "Adafactor";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>(List.of(p));
        all.addAll(rule.memory(p).values());
        return all;
    }

    /** Elements of a row of the whole parameter, over which its mean is taken. */
    long allColumns() {
        return of.whole().dim(-1);
    }

    /** Rows of a matrix of the whole parameter. */
    long allRows() {
        return of.whole().dim(-2);
    }

    /** Sums over each row of a whole matrix. */
    double[] ofRows(double[] own) {
        return of.sharesAxis(1) ? of.sums(own) : own;
    }

    /** Sums over each column of a whole matrix, or one over its rows. */
    double[] ofColumns(double... own) {
        return of.sharesAxis(2) ? of.sums(own) : own;
    }

    boolean factors() {
        return AdafactorRule.factors(p);
    }

    /** The output that holds row, or v of a vector; its input is {@link #BUFFERS} - 1 further. */
    int second() {
        return rule.hasMoment() ? 2 : 1;
    }

    /** The input that holds the same as an output. */
    static int input(int output) {
        return output == 0 ? 0 : BUFFERS + output - 1;
    }

    /** Number of outputs. */
    int kept() {
        return second() + (factors() ? 2 : 1);
    }
}
