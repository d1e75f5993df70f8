package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Each token's sum of what its experts made of it, weighted by the router, in the order of its choices: {@code y[t] = Σ_j weights[t, j] ·
 * rows[places[t*k + j]]}.
 *
 * @param rows [tokens*k, size]
 * @param places I64 [tokens*k], as of {@link ExpertDispatch}
 * @param weights [..., k], of any float type
 */
public record ExpertCombine(OperandType rows, OperandType places, OperandType weights) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<ExpertCombine> ENTRY = OpEntry.of(
                    ExpertCombine.class, new ExpertCombineReference(), new ExpertCombineCpu(), new ExpertCombineCuda())
            .octet("ExpertCombine", ExpertCombine::read);

    /** Reads {@code dev.octet.ExpertCombine}. */
    static ExpertCombine read(OpSource source) {
        ExpertCombine op = new ExpertCombine(source.input(0), source.input(1), source.input(2));
        boolean fits = op.rows.shape().rank() == 2
                && op.weights.shape().rank() >= 1
                && op.rows.shape().dim(0) == op.weights.count()
                && op.places.count() == op.weights.count();
        if (!fits) {
            throw source.refusal(
                    "the rows are " + op.rows.shape() + ", the weights " + op.weights.shape(),
                    "convert the model again");
        }
        return op;
    }

    /** Elements of a token. */
    int size() {
        return Math.toIntExact(rows.shape().dim(1));
    }

    /** Choices of each token. */
    int choices() {
        return Math.toIntExact(weights.shape().dim(weights.shape().rank() - 1));
    }

    int tokens() {
        return choices() == 0 ? 0 : Math.toIntExact(weights.count() / choices());
    }

    @Override
    public String type() {
        return "ExpertCombine";
    }

    @Override
    public List<OperandType> outputs() {
        long[] dims = weights.shape().toArray();
        dims[dims.length - 1] = size();
        return List.of(new OperandType(rows.dtype(), Shape.of(dims)));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i != 1;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }
}
