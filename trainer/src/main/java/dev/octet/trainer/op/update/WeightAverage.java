package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * A running average of a parameter over a run, as torch.optim.swa_utils.AveragedModel computes it: {@code average += weight · (p - average)}. The first
 * average is a copy; later ones have the weight {@code 1 - decay} (exponential moving average) or 1 / n for the n-th (stochastic weight averaging).
 *
 * <p>Inputs: average, p as the step leaves it, then the scalars t (number of updates so far, from 1), and whether the step is left out (1, then nothing
 * changes). Output: average, which lies where the input does.
 *
 * @param p type of the parameter
 * @param average type of the average
 * @param decay of an exponential moving average; 0 for the mean of all
 * @param start updates that are left out at the beginning
 * @param every updates from one average to the next, at least 1
 */
public record WeightAverage(OperandType p, OperandType average, double decay, long start, long every)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<WeightAverage> ENTRY = UpdateOp.entry(
            WeightAverage.class, UpdateReference::average, new WeightAverageCpu(), new WeightAverageCuda());

    @Override
    public String type() {
        return "WeightAverage";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(average);
    }

    /** The weight of p after {@code t} updates; 0 when it does not enter the average. */
    double weight(double t, boolean leftOut) {
        double after = t - start;
        if (leftOut || after <= 0 || after % every != 0) {
            return 0;
        }
        double n = after / every;
        return n == 1 ? 1 : decay > 0 ? 1 - decay : 1 / n;
    }
}
