package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.ReductionRule;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The average of ranks' gradients of one tensor as MS-AMP computes it from E4M3 codes, see {@link dev.octet.trainer.reduction}. Inputs: a gradient of each rank in
 * F32, the scale kept by the step before, the pre-scale. Outputs: the parts of the average, the scale kept, the next pre-scale, the number of
 * saturated codes; the two scales may lie where the inputs do.
 *
 * @param g type of the average, if it is kept as floats
 * @param form how it is kept: as floats, or as its E4M3 codes with their multiplier
 * @param rule how it is made
 * @param automatic how the pre-scale goes on; empty where it stays
 */
public record CodedRankAverage(OperandType g, StateForm form, ReductionRule rule, Optional<AutoScale> automatic)
        implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CodedRankAverage> ENTRY = UpdateOp.entry(
            CodedRankAverage.class,
            RankAverageReference::coded,
            new CodedRankAverageCpu(),
            new CodedRankAverageCuda());

    public CodedRankAverage {
        if (!keeps(form)) {
            throw new IllegalArgumentException("the average of ranks is not kept as " + form.text());
        }
    }

    /** Whether an average can be kept in a form. */
    public static boolean keeps(StateForm form) {
        return form instanceof StateForm.Plain
                || (form instanceof StateForm.PowerOfTwo p && p.type() == DType.F8_E4M3FN);
    }

    @Override
    public String type() {
        return "RankAverage";
    }

    /** Whether the average is kept as codes. */
    boolean keepsCodes() {
        return !form.isFloats();
    }

    /** Number of outputs before the scales. */
    int parts() {
        return keepsCodes() ? 2 : 1;
    }

    /** Type of a rank's gradient. */
    OperandType ranked() {
        return g.as(DType.F32);
    }

    /** The pre-scale of the next step. */
    float next(float preScale, long saturated, float amax) {
        return automatic.map(a -> a.next(preScale, saturated, g.count(), amax)).orElse(preScale);
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>();
        if (keepsCodes()) {
            form.parts(g).forEach(part -> all.add(part.type()));
        } else {
            all.add(g);
        }
        all.addAll(List.of(SCALAR, SCALAR, SCALAR));
        return all;
    }
}
