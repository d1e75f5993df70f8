package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * The first part of a step of Muon, as torch.optim.Muon computes it:
 *
 * <pre>
 * g = gradient · factor
 * m += (1 - momentum) (g - m)
 * u = m, or g + momentum · (m - g) with Nesterov
 * </pre>
 *
 * <p>Inputs: gradient, m, then the scalars factor, whether the step is left out (1, then m stays and u is 0). Outputs: u, and m, which lies where the input does.
 *
 * @param g type of the gradient
 * @param to element type of u
 */
public record MuonMomentum(OperandType g, DType to, double momentum, boolean nesterov) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<MuonMomentum> ENTRY =
            UpdateOp.entry(MuonMomentum.class, MuonReference::momentum, MuonCpu::momentum, MuonCuda::momentum);

    @Override
    public String type() {
        return "MuonMomentum";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(g.as(to), g.as(DType.F32));
    }
}
