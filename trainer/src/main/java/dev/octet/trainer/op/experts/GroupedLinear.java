package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * A Linear with a weight for each expert: rows {@code offsets[e] .. offsets[e+1] - 1} of x are multiplied with weight e. The offsets are known only
 * when it runs; the number of all rows is fixed. An expert without rows has a gradient of zero.
 *
 * <p>Inputs: x, offsets, the weights of all experts, then their biases, where they have some.
 *
 * @param x [rows, in]
 * @param w [in, out], or [out, in] with {@code transB}; that of each expert
 * @param y [rows, out], of the type of x
 */
public record GroupedLinear(OperandType x, OperandType w, int experts, boolean hasBias, boolean transB, OperandType y)
        implements Op {
    /** Index of the first weight among the inputs. */
    public static final int WEIGHTS = 2;

    /** Its row in the table of operators. */
    public static final OpEntry<GroupedLinear> ENTRY = OpEntry.of(
                    GroupedLinear.class, new GroupedLinearReference(), new GroupedLinearCpu(), new GroupedLinearCuda())
            .octet("GroupedLinear", GroupedLinear::read);

    /** Reads {@code dev.octet.GroupedLinear}. */
    static GroupedLinear read(OpSource source) {
        OperandType x = source.input(0);
        OperandType w = source.input(WEIGHTS);
        int experts = Math.toIntExact(source.input(1).count()) - 1;
        boolean transB = source.node().intAttribute("transB", 0) != 0;
        boolean hasBias = source.has(WEIGHTS + experts);
        boolean fits = x.shape().rank() == 2
                && w.shape().rank() == 2
                && experts > 0
                && x.shape().dim(1) == w.shape().dim(transB ? 1 : 0);
        for (int e = 0; fits && e < experts; e++) {
            fits = source.input(WEIGHTS + e).equals(w) && source.has(WEIGHTS + experts + e) == hasBias;
        }
        if (!fits || x.dtype() != w.dtype()) {
            throw source.refusal(
                    "x is " + x + ", the weights of " + experts + " experts are not all " + w + " or do not fit it",
                    "convert the model again");
        }
        long out = w.shape().dim(transB ? 0 : 1);
        OperandType y = new OperandType(x.dtype(), Shape.of(x.shape().dim(0), out));
        return new GroupedLinear(x, w, experts, hasBias, transB, y);
    }

    int rows() {
        return Math.toIntExact(x.shape().dim(0));
    }

    /** Columns of x. */
    public int in() {
        return Math.toIntExact(x.shape().dim(1));
    }

    /** Columns of y. */
    public int out() {
        return Math.toIntExact(y.shape().dim(1));
    }

    @Override
    public String type() {
        return "GroupedLinear";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i != 1;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i < WEIGHTS + experts;
    }

    @Override
    public boolean backwardReadsInput(int i, IntPredicate wanted) {
        if (i == 0) {
            for (int e = 0; e < experts; e++) {
                if (wanted.test(WEIGHTS + e)) {
                    return true;
                }
            }
            return false;
        }
        return i == 1 || (i < WEIGHTS + experts && wanted.test(0));
    }

    @Override
    public boolean canAccumulate(int i) {
        return i >= WEIGHTS;
    }
}
