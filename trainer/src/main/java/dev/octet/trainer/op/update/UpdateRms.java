package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.SharedTensor;
import java.util.List;

/**
 * How much larger a tensor's gradient is than its second moment expects, by which StableAdamW divides the learning rate where it is above 1 (Wortsman et al.,
 * arXiv:2304.13013, algorithm 2): with t the step's number from 1
 *
 * <pre>
 * g   = gradient · factor
 * u   = (β₂ v + (1 - β₂) g²) / (1 - β₂ᵗ)
 * rms = √(mean of g² / max(u, eps²))
 * </pre>
 *
 * <p>Inputs: gradient, v as it was before the step, then the scalars t, factor. Output: rms, F32.
 *
 * @param g type of the gradient
 * @param moment type of v
 * @param of the tensor whose root mean square it is, of which ranks may have parts
 */
public record UpdateRms(OperandType g, OperandType moment, double beta2, double eps, SharedTensor of)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<UpdateRms> ENTRY =
            UpdateOp.entry(UpdateRms.class, UpdateReference::updateRms, new UpdateRmsCpu(), new UpdateRmsCuda());

    @Override
    public String type() {
        return "UpdateRms";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(SCALAR);
    }

    /** 1 - β₂ᵗ. */
    double correction(double t) {
        return 1 - Math.pow(beta2, t);
    }

    /** The output, from the sum over this rank's elements. */
    double root(double ownSum) {
        return Math.sqrt(of.sums(ownSum)[0] / Math.max(1, of.whole().elementCount()));
    }

    /** What the learning rate is divided by. */
    static double divisor(double rms) {
        return rms > 1 ? rms : 1;
    }
}
