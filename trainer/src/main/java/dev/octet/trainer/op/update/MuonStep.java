package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.rule.MuonRule;
import java.util.List;

/**
 * The last part of a step of Muon: {@code p = p · (1 - lr · weightDecay) - lr · adjustment · o}.
 *
 * <p>Inputs: p, the near orthogonal o, then the scalars lr, and whether the step is left out (1, then nothing changes). Output: p, which lies where the input does.
 *
 * @param p type of the parameter
 * @param o type of the update
 */
public record MuonStep(OperandType p, OperandType o, double weightDecay, double adjustment) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<MuonStep> ENTRY =
            UpdateOp.entry(MuonStep.class, MuonReference::step, MuonCpu::step, MuonCuda::step);

    /**
     * The step of a matrix, or of a part of it.
     *
     * @param whole shape of the matrix
     */
    public static MuonStep of(OperandType p, Shape whole, MuonRule rule, double weightDecay) {
        return new MuonStep(p, p.as(rule.type()), weightDecay, rule.adjustment(whole.dim(0), whole.dim(1)));
    }

    @Override
    public String type() {
        return "Muon";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(p);
    }
}
