package dev.octet.trainer.op.gated;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaCall.Origin;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.unary.Unary;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The steps of the gradient of {@link GatedProduct}: of the product, then of the Gelu, or of SiLU's product and its Sigmoid and the sum of what both give the gate. What
 * forward made between gate and product is made again of the gate, so that it need not be kept.
 *
 * @param steps in their order
 * @param active number of the product's operand that the activation makes
 */
public record GatedGradient(
        List<CudaCall> steps, Activation activation, int active, CudaTensor gate, CudaTensor dgate, CudaTensor dup) {
    /** Those that begin at a call; null where there are none. */
    public static @Nullable GatedGradient of(List<CudaCall> calls, int at) {
        CudaCall product = calls.get(at);
        if (at + 1 >= calls.size() || !GatedProduct.isProduct(product, true) || !isWhole(product)) {
            return null;
        }
        for (int k = 0; k < 2; k++) {
            Origin active = product.origin(k);
            CudaCall next = calls.get(at + 1);
            if (active != null
                    && next.backward()
                    && next.frame().hasUpstream(0)
                    && next.frame().upstream(0).equals(product.frame().gradient(k))
                    && product.gradientReaders().applyAsInt(k) == 1) {
                GatedGradient found =
                        active.op() instanceof Gelu ? ofGelu(calls, at, k, active) : ofSilu(calls, at, k, active);
                if (found != null && found.isOfOneType()) {
                    return found;
                }
            }
        }
        return null;
    }

    /** Whether both gradients are wanted, and written. */
    private static boolean isWhole(CudaCall product) {
        Frame<CudaTensor> frame = product.frame();
        return frame.hasUpstream(0) && isWritten(frame, 0) && isWritten(frame, 1);
    }

    private static boolean isWritten(Frame<CudaTensor> frame, int i) {
        return frame.wantsGradient(i) && !frame.accumulates(i);
    }

    private static @Nullable GatedGradient ofGelu(List<CudaCall> calls, int at, int k, Origin active) {
        CudaCall gelu = calls.get(at + 1);
        if (!(gelu.op() instanceof Gelu op) || !isWritten(gelu.frame(), 0) || !isValue(active, 0, gelu.origin(0))) {
            return null;
        }
        CudaTensor dup = calls.get(at).frame().gradient(1 - k);
        return new GatedGradient(
                List.copyOf(calls.subList(at, at + 2)),
                op.tanh() ? Activation.GELU_TANH : Activation.GELU,
                k,
                gelu.frame().input(0),
                gelu.frame().gradient(0),
                dup);
    }

    private static @Nullable GatedGradient ofSilu(List<CudaCall> calls, int at, int k, Origin active) {
        CudaCall inner = calls.get(at + 1);
        if (at + 3 >= calls.size() || !GatedProduct.isProduct(inner, true) || !isWhole(inner)) {
            return null;
        }
        CudaCall sigmoid = calls.get(at + 2);
        CudaCall sum = calls.get(at + 3);
        if (!(active.op() instanceof Binary b)
                || !b.equals(inner.op())
                || !isValue(active, 0, inner.origin(0))
                || !isValue(active, 1, inner.origin(1))
                || !sigmoid.backward()
                || !GatedProduct.isSigmoid(sigmoid.op())
                || !sigmoid.frame().hasUpstream(0)
                || !isWritten(sigmoid.frame(), 0)
                || !sum.isForward(Accumulate.class)) {
            return null;
        }
        for (int j = 0; j < 2; j++) {
            Origin share = inner.origin(j);
            if (share != null
                    && share.op() != null
                    && GatedProduct.isSigmoid(share.op())
                    && isValue(share, 0, inner.origin(1 - j))
                    && sigmoid.frame().output(0).equals(inner.frame().input(j))
                    && sigmoid.frame().upstream(0).equals(inner.frame().gradient(j))
                    && inner.gradientReaders().applyAsInt(j) == 1
                    && adds(sum, inner, 1 - j, sigmoid)) {
                return new GatedGradient(
                        List.copyOf(calls.subList(at, at + 4)),
                        Activation.SILU,
                        k,
                        inner.frame().input(1 - j),
                        sum.frame().output(0),
                        calls.get(at).frame().gradient(1 - k));
            }
        }
        return null;
    }

    /** Whether a step adds up what the product and the sigmoid give the gate, in place or as their only reader. */
    private static boolean adds(CudaCall sum, CudaCall inner, int gate, CudaCall sigmoid) {
        CudaTensor past = inner.frame().gradient(gate);
        return sum.frame().input(0).equals(past)
                && sum.frame().input(1).equals(sigmoid.frame().gradient(0))
                && sigmoid.gradientReaders().applyAsInt(0) == 1
                && (sum.frame().output(0).equals(past)
                        || inner.gradientReaders().applyAsInt(gate) == 1);
    }

    /** Whether input {@code i} of what made a value is this one. */
    private static boolean isValue(Origin made, int i, @Nullable Origin value) {
        return value != null && i < made.inputs().size() && made.inputs().get(i) == value.value();
    }

    private boolean isOfOneType() {
        return GatedProduct.isNumbers(gate)
                && up().type().equals(gate.type())
                && dy().type().equals(gate.type())
                && dgate.type().equals(gate.type())
                && dup.type().equals(gate.type());
    }

    /** What the gate's activation is multiplied by. */
    public CudaTensor up() {
        return steps.getFirst().frame().input(1 - active);
    }

    /** Gradient of the result. */
    public CudaTensor dy() {
        return steps.getFirst().frame().upstream(0);
    }

    /** Writes both gradients in one launch. */
    public void write(CudaStream cuda) {
        Grid grid = Grid.over(gate.count(), 256, 8);
        cuda.launch(
                GatedProduct.SOURCE,
                "gated_backward_" + gate.suffix(),
                grid,
                gate,
                up(),
                dy(),
                dgate,
                dup,
                activation.number(),
                gate.count());
    }

    /**
     * Writes the steps one by one, with what forward made in the workspace.
     *
     * @param done called behind each of them
     */
    public void writeAlone(CudaStream cuda, Runnable done) {
        CudaTensor made = new CudaTensor(gate.type(), cuda.workspace(gate.byteSize()));
        CudaCall product = steps.getFirst();
        CudaCall inner = steps.get(1);
        if (activation == Activation.SILU) {
            CudaCall sigmoid = steps.get(2);
            CudaTensor share = new CudaTensor(gate.type(), cuda.workspace(gate.byteSize()));
            int j = inner.frame().input(0).equals(gate) ? 1 : 0;
            GatedProduct.forward(
                    sigmoid.op(), new Recomputed(sigmoid.frame(), Map.of(0, gate), Map.of(0, share)), cuda);
            GatedProduct.forward(inner.op(), new Recomputed(inner.frame(), Map.of(j, share), Map.of(0, made)), cuda);
            ofProduct(product, Map.of(active, made), cuda);
            done.run();
            ofProduct(inner, Map.of(j, share), cuda);
            done.run();
            Unary.ENTRY
                    .cuda()
                    .backward((Unary) sigmoid.op(), new Recomputed(sigmoid.frame(), Map.of(), Map.of(0, share)), cuda);
            done.run();
            CudaCall sum = steps.getLast();
            Accumulate.ENTRY.cuda().forward((Accumulate) sum.op(), sum.frame(), cuda);
        } else {
            GatedProduct.forward(inner.op(), new Recomputed(inner.frame(), Map.of(), Map.of(0, made)), cuda);
            ofProduct(product, Map.of(active, made), cuda);
            done.run();
            Gelu.ENTRY.cuda().backward((Gelu) inner.op(), inner.frame(), cuda);
        }
        done.run();
    }

    private static void ofProduct(CudaCall product, Map<Integer, CudaTensor> inputs, CudaStream cuda) {
        Frame<CudaTensor> frame = new Recomputed(product.frame(), inputs, Map.of());
        Binary.ENTRY.cuda().backward((Binary) product.op(), frame, cuda);
    }
}
