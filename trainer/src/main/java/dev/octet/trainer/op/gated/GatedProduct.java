package dev.octet.trainer.op.gated;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.binary.BinaryFunction;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.unary.Unary;
import dev.octet.trainer.op.unary.UnaryFunction;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The steps of {@code act(gate) * up}: a Gelu, or SiLU as a Sigmoid and its product with the gate, and the product with what another Linear has made. All
 * numbers are of one type and shape.
 *
 * @param steps in their order
 */
public record GatedProduct(List<CudaCall> steps, Activation activation, CudaTensor gate, CudaTensor up) {
    static final CudaSource SOURCE = CudaSource.of(GatedProduct.class, "gated.cu");

    /** Those that begin at a call; null where there are none. */
    public static @Nullable GatedProduct of(List<CudaCall> calls, int at) {
        Activation activation = activation(calls, at);
        int last = activation == Activation.SILU ? at + 2 : at + 1;
        if (activation == null || last >= calls.size() || !isProduct(calls.get(last), false)) {
            return null;
        }
        CudaTensor gate = calls.get(at).frame().input(0);
        CudaTensor active = calls.get(last - 1).frame().output(0);
        Frame<CudaTensor> product = calls.get(last).frame();
        int of = product.input(0).equals(active) ? 0 : 1;
        CudaTensor up = product.input(1 - of);
        boolean fits = product.input(of).equals(active)
                && !up.equals(active)
                && isNumbers(gate)
                && up.type().equals(gate.type())
                && product.output(0).type().equals(gate.type());
        return fits ? new GatedProduct(List.copyOf(calls.subList(at, last + 1)), activation, gate, up) : null;
    }

    private static @Nullable Activation activation(List<CudaCall> calls, int at) {
        CudaCall first = calls.get(at);
        if (first.isForward(Gelu.class)) {
            return ((Gelu) first.op()).tanh() ? Activation.GELU_TANH : Activation.GELU;
        }
        if (!isSigmoid(first.op())
                || first.backward()
                || at + 1 >= calls.size()
                || !isProduct(calls.get(at + 1), false)) {
            return null;
        }
        CudaTensor x = first.frame().input(0);
        CudaTensor s = first.frame().output(0);
        Frame<CudaTensor> product = calls.get(at + 1).frame();
        boolean isSilu = (product.input(0).equals(x) && product.input(1).equals(s))
                || (product.input(0).equals(s) && product.input(1).equals(x));
        return isSilu ? Activation.SILU : null;
    }

    static boolean isSigmoid(Op op) {
        return op instanceof Unary u && u.function() == UnaryFunction.Sigmoid;
    }

    static boolean isProduct(CudaCall call, boolean backward) {
        return call.backward() == backward && call.op() instanceof Binary b && b.function() == BinaryFunction.Mul;
    }

    static boolean isNumbers(CudaTensor x) {
        return (x.dtype() == DType.F32 || x.dtype() == DType.BF16 || x.dtype() == DType.F16) && x.count() > 0;
    }

    /** The result. */
    public CudaTensor y() {
        return product().frame().output(0);
    }

    /** The last step. */
    public CudaCall product() {
        return steps.getLast();
    }

    /** Writes the result in one launch. */
    public void write(CudaStream cuda) {
        Grid grid = Grid.over(gate.count(), 256, 8);
        cuda.launch(SOURCE, "gated_forward_" + gate.suffix(), grid, gate, up, y(), activation.number(), gate.count());
    }

    /**
     * Writes the steps of the activation one by one, all of them or those that no step takes.
     *
     * @param taken whether other steps take what they make
     */
    public void writeActivation(boolean taken, CudaStream cuda) {
        List<CudaCall> activations = steps.subList(0, steps.size() - 1);
        if (activations.stream().anyMatch(c -> cuda.isTaken(c.frame().output(0))) == taken) {
            activations.forEach(c -> forward(c.op(), c.frame(), cuda));
        }
    }

    /** Writes a step of an activation by itself. */
    static void forward(Op op, Frame<CudaTensor> frame, CudaStream cuda) {
        switch (op) {
            case Gelu gelu -> Gelu.ENTRY.cuda().forward(gelu, frame, cuda);
            case Unary unary -> Unary.ENTRY.cuda().forward(unary, frame, cuda);
            case Binary binary -> Binary.ENTRY.cuda().forward(binary, frame, cuda);
            default -> throw new IllegalArgumentException(op + " is not part of an activation");
        }
    }
}
