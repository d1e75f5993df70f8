package dev.octet.trainer.op.trilu;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * The upper or lower triangle of matrices [.., rows, columns], zero elsewhere; so is the gradient.
 *
 * @param diagonal the last diagonal that is kept: 0 is the main one, positive ones lie above
 */
public record Trilu(OperandType x, boolean upper, long diagonal) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Trilu> ENTRY = OpEntry.of(
                    Trilu.class, new TriluReference(), new TriluCpu(), new TriluCuda())
            .onnx("Trilu", Trilu::read);

    /** Reads ONNX Trilu. */
    static Trilu read(OpSource source) {
        OperandType x = source.input(0);
        if (x.shape().rank() < 2) {
            throw source.refusal(x.shape() + " is not a matrix", "the model is damaged; export it again");
        }
        long diagonal = source.has(1) ? source.longs(1)[0] : 0;
        return new Trilu(x, source.node().intAttribute("upper", 1) != 0, diagonal);
    }

    long rows() {
        return x.shape().dim(-2);
    }

    long columns() {
        return x.shape().dim(-1);
    }

    /** First column of a row that is kept. */
    long from(long row) {
        return upper ? Math.max(0, Math.min(columns(), row + diagonal)) : 0;
    }

    /** The column behind the last one that is kept. */
    long to(long row) {
        return upper ? columns() : Math.max(0, Math.min(columns(), row + diagonal + 1));
    }

    @Override
    public String type() {
        return "Trilu";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
