package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.ReductionRule;
import java.util.List;
import java.util.Optional;

/**
 * The average of ranks' gradients of one tensor as MS-AMP computes it from E4M3 codes, see {@link dev.octet.trainer.reduction}. Inputs: a gradient of each rank in
 * F32, the scale kept by the step before, the pre-scale. Outputs: the average, the scale kept, the next pre-scale, the number of
 * saturated codes; the two scales may lie where the inputs do.
 *
 * @param g type of the average: floats that its codes stand for
 * @param rule how it is made
 * @param automatic how the pre-scale goes on; empty where it stays
 */
public record CodedRankAverage(OperandType g, ReductionRule rule, Optional<AutoScale> automatic) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CodedRankAverage> ENTRY = UpdateOp.entry(
            CodedRankAverage.class, RankAverageReference::coded, new CodedRankAverageCpu(), new CodedRankAverageCuda());

    @Override
    public String type() {
        return "RankAverage";
    }

    /** The pre-scale of the next step. */
    float next(float preScale, long saturated, float amax) {
        return automatic.map(a -> a.next(preScale, saturated, g.count(), amax)).orElse(preScale);
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(g, SCALAR, SCALAR, SCALAR);
    }
}
