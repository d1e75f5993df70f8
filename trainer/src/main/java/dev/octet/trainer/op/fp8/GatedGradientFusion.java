package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.gated.GatedGradient;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The gradients that a gated MLP's two Linears take, made of gate, up and the result's gradient in one pass; where both Linears are in FP8 with scales of earlier steps, they are
 * quantised, transposed and summed for the biases in the same pass, and written only where something else reads them. What forward made between gate and product is made again.
 */
public final class GatedGradientFusion implements CudaFusion {
    /** @param linears those that take the gradients in FP8, in the order of their steps; none where they take numbers */
    private record Match(GatedGradient gradient, List<CudaCall> linears) {
        static @Nullable Match of(List<CudaCall> calls, int at) {
            GatedGradient gradient = GatedGradient.of(calls, at);
            if (gradient == null) {
                return null;
            }
            int next = at + gradient.steps().size();
            if (next + 1 < calls.size() && takesBoth(gradient, calls.get(next), calls.get(next + 1))) {
                return new Match(gradient, List.copyOf(calls.subList(next, next + 2)));
            }
            return new Match(gradient, List.of());
        }

        private static boolean takesBoth(GatedGradient gradient, CudaCall first, CudaCall second) {
            return isDelayed(first)
                    && isDelayed(second)
                    && (takes(first, gradient.dup(), second, gradient.dgate())
                            || takes(first, gradient.dgate(), second, gradient.dup()))
                    && ((Fp8Linear) first.op()).rows() == ((Fp8Linear) second.op()).rows()
                    && ((Fp8Linear) first.op()).out() == ((Fp8Linear) second.op()).out()
                    && format(first).equals(format(second));
        }

        private static boolean takes(CudaCall first, CudaTensor dy, CudaCall second, CudaTensor other) {
            return first.frame().upstream(0).equals(dy)
                    && second.frame().upstream(0).equals(other);
        }

        private static CodedMatrix format(CudaCall linear) {
            return Fp8LinearCuda.first((Fp8Linear) linear.op());
        }

        private static boolean isDelayed(CudaCall call) {
            return call.isBackward(Fp8Linear.class)
                    && GeluGradientFusion.isDelayed((Fp8Linear) call.op())
                    && call.frame().wantsGradient(Fp8Linear.W);
        }

        /** Whether gradients are made with their codes; those of the products that FP8 units do not compute are not. */
        boolean casts(CudaStream cuda) {
            return !linears.isEmpty()
                    && linears.stream()
                            .allMatch(c -> Fp8LinearCuda.makesTranspose((Fp8Linear) c.op(), c.frame(), cuda));
        }

        private boolean isFirst(CudaTensor dy) {
            return linears.getFirst().frame().upstream(0).equals(dy);
        }

        /** Whether something beside a Linear's codes reads its gradient. */
        boolean isRead(CudaTensor dy, CudaStream cuda) {
            CudaCall linear = isFirst(dy) ? linears.getFirst() : linears.getLast();
            return cuda.isTaken(dy) || Fp8LinearCuda.readsNumbers((Fp8Linear) linear.op(), linear.frame(), cuda);
        }
    }

    @Override
    public int length(List<CudaCall> calls, int at) {
        Match match = Match.of(calls, at);
        return match == null
                ? 0
                : match.gradient().steps().size() + match.linears().size();
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Match match = Objects.requireNonNull(Match.of(calls, 0));
        GatedGradient gradient = match.gradient();
        if (!match.casts(cuda)) {
            gradient.write(cuda);
            match.linears().forEach(c -> Fp8Linear.ENTRY.cuda().backward((Fp8Linear) c.op(), c.frame(), cuda));
            return;
        }
        List<Object> operands = List.of(
                gradient.gate(),
                gradient.up(),
                gradient.dy(),
                match.isRead(gradient.dgate(), cuda) ? gradient.dgate() : (Object) 0L,
                match.isRead(gradient.dup(), cuda) ? gradient.dup() : (Object) 0L,
                gradient.activation().number());
        List<Integer> order = match.isFirst(gradient.dgate()) ? List.of(0, 1) : List.of(1, 0);
        Fp8LinearCuda.backward(match.linears(), order, "gated_gradient", operands, cuda);
    }

    /** The gradient of the gate is summed in place, and so is that of what both Linears read. */
    @Override
    public boolean isSeenAlone() {
        return true;
    }

    @Override
    public void writeAlone(List<CudaCall> calls, CudaStream cuda, Runnable done) {
        Match match = Objects.requireNonNull(Match.of(calls, 0));
        match.gradient().writeAlone(cuda, done);
        for (CudaCall linear : match.linears()) {
            Fp8Linear.ENTRY.cuda().backward((Fp8Linear) linear.op(), linear.frame(), cuda);
            done.run();
        }
    }
}
