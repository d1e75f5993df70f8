package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = x·w (+ b)} over the last axis of x: Octet's canonical Linear. The axes of x before the last are taken as one, so forward
 * and each gradient are one product.
 *
 * @param x [..., in]
 * @param w [in, out], or [out, in] with {@code transB}
 * @param hasBias whether input 2, [out], is there
 * @param y [..., out], of the type of x
 * @param rows product of the axes of x before the last
 */
public record Linear(
        OperandType x, OperandType w, boolean hasBias, boolean transB, OperandType y, int rows, int in, int out)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Linear> ENTRY = OpEntry.of(
                    Linear.class, new LinearReference(), new LinearCpu(), new LinearCuda())
            .octet("Linear", Linear::read);

    /** Reads {@code dev.octet.Linear}. */
    static Linear read(OpSource source) {
        OperandType x = source.input(0);
        OperandType w = source.input(1);
        boolean transB = source.node().intAttribute("transB", 0) != 0;
        if (x.shape().rank() < 1 || w.shape().rank() != 2) {
            throw source.refusal(
                    "x is " + x.shape() + ", w is " + w.shape() + "; w must have two axes, x at least one",
                    "convert the model again");
        }
        return of(source, x, w, source.has(2), transB);
    }

    private static Linear of(OpSource source, OperandType x, OperandType w, boolean hasBias, boolean transB) {
        long[] dims = x.shape().toArray();
        int in = Math.toIntExact(dims[dims.length - 1]);
        int out = Math.toIntExact(w.shape().dim(transB ? 0 : 1));
        if (w.shape().dim(transB ? 1 : 0) != in) {
            throw source.refusal(
                    "x " + x.shape() + " does not fit w " + w.shape() + (transB ? ", transposed" : ""),
                    "convert the model again");
        }
        Operands.requireOneType(source, x, w);
        int rows = 1;
        for (int i = 0; i < dims.length - 1; i++) {
            rows = Math.multiplyExact(rows, Math.toIntExact(dims[i]));
        }
        dims[dims.length - 1] = out;
        return new Linear(x, w, hasBias, transB, new OperandType(x.dtype(), Shape.of(dims)), rows, in, out);
    }

    @Override
    public String type() {
        return "Linear";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i < 2;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
