package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * A matrix over its norm, so that no singular value is above 1: {@code x / max(√squares, eps)}.
 *
 * <p>Inputs: x, and the {@link SquareSum} of its elements. Output: the quotient, of x's type.
 */
public record MuonScale(OperandType x, double eps) implements UpdateOp {
    /** Its row in the table of operators. */
    public static final OpEntry<MuonScale> ENTRY =
            UpdateOp.entry(MuonScale.class, MuonReference::scale, MuonCpu::scale, MuonCuda::scale);

    @Override
    public String type() {
        return "MuonScale";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    /** What x is multiplied by. */
    double factor(double squares) {
        return 1 / Math.max(Math.sqrt(squares), eps);
    }
}
