package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Rows of tokens sorted by the experts that a router chose for them. A slot is one choice of one token: slot {@code t*k + j} is choice j of token
 * t. Rows of one expert stand side by side, in the order of their slots. No token is dropped: as many rows as slots are there, however they are
 * shared among experts.
 *
 * <p>Outputs: the rows [tokens*k, size]; I64 [tokens*k], the row of each slot; I64 [experts + 1], the first row of each expert, and behind the
 * last one the number of rows.
 *
 * @param node id of the node, for messages
 * @param x [..., size]; the axes before the last are taken as one, the tokens
 * @param chosen I64, of tokens*k elements: experts from 0 on
 */
public record ExpertDispatch(String node, OperandType x, OperandType chosen, int experts) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<ExpertDispatch> ENTRY = OpEntry.of(
                    ExpertDispatch.class,
                    new ExpertDispatchReference(),
                    new ExpertDispatchCpu(),
                    new ExpertDispatchCuda())
            .octet("ExpertDispatch", ExpertDispatch::read);

    /** Reads {@code dev.octet.ExpertDispatch}. */
    static ExpertDispatch read(OpSource source) {
        OperandType x = source.input(0);
        OperandType chosen = source.input(1);
        ExpertDispatch op = new ExpertDispatch(
                source.node().id(), x, chosen, Math.toIntExact(source.node().intAttribute("experts", 0)));
        if (x.shape().rank() < 2 || op.experts < 1 || (long) op.tokens() * op.choices() != chosen.count()) {
            throw source.refusal(
                    "x is " + x.shape() + ", the choices are " + chosen.shape() + " among " + op.experts + " experts",
                    "convert the model again");
        }
        return op;
    }

    /** Elements of a token. */
    int size() {
        return Math.toIntExact(x.shape().dim(x.shape().rank() - 1));
    }

    int tokens() {
        return size() == 0 ? 0 : Math.toIntExact(x.count() / size());
    }

    /** Choices of each token. */
    int choices() {
        return tokens() == 0 ? 0 : slots() / tokens();
    }

    /** Choices of all tokens. */
    int slots() {
        return Math.toIntExact(chosen.count());
    }

    @Override
    public String type() {
        return "ExpertDispatch";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(
                new OperandType(x.dtype(), Shape.of(slots(), size())),
                new OperandType(DType.I64, Shape.of(slots())),
                new OperandType(DType.I64, Shape.of(experts + 1L)));
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 1;
    }
}
