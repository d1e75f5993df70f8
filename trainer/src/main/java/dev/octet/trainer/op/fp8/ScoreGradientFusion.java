package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.loss.ScoreGradient;
import java.util.ArrayList;
import java.util.List;

/**
 * The gradient of a cross entropy that a head in FP8 takes: made of the scores, quantised and transposed in one pass. It is written only where something else reads it, and takes
 * no memory otherwise.
 */
public final class ScoreGradientFusion implements CudaFusion {
    @Override
    public int length(List<CudaCall> calls, int at) {
        ScoreGradient gradient = ScoreGradient.of(calls.get(at));
        if (gradient == null || at + 1 >= calls.size()) {
            return 0;
        }
        CudaCall linear = calls.get(at + 1);
        return linear.isBackward(Fp8Linear.class)
                        && linear.frame().upstream(0).equals(gradient.dx())
                        && linear.frame().wantsGradient(Fp8Linear.W)
                        && linear.op() instanceof Fp8Linear op
                        && GeluGradientFusion.isDelayed(op)
                        && op.rows() == gradient.positions()
                        && op.out() == gradient.classes()
                ? 2
                : 0;
    }

    private static boolean casts(CudaCall linear, CudaStream cuda) {
        return Fp8LinearCuda.makesTranspose((Fp8Linear) linear.op(), linear.frame(), cuda);
    }

    private static boolean isRead(CudaCall linear, CudaStream cuda) {
        return linear.upstreamReaders().applyAsInt(0) > 1
                || !casts(linear, cuda)
                || Fp8LinearCuda.readsNumbers((Fp8Linear) linear.op(), linear.frame(), cuda);
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        ScoreGradient gradient = requireNonNull(ScoreGradient.of(calls.getFirst()));
        CudaCall linear = calls.getLast();
        Fp8Linear op = (Fp8Linear) linear.op();
        if (!casts(linear, cuda)) {
            gradient.write(gradient.dx(), cuda);
            Fp8Linear.ENTRY.cuda().backward(op, linear.frame(), cuda);
            return;
        }
        List<Object> operands = new ArrayList<>();
        operands.add(gradient.scores());
        operands.add(isRead(linear, cuda) ? gradient.dx() : (Object) 0L);
        operands.addAll(gradient.rows(cuda));
        Fp8LinearCuda.backward(op, linear.frame(), "score_gradient", operands, cuda);
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        ScoreGradient gradient = requireNonNull(ScoreGradient.of(calls.getFirst()));
        if (!isRead(calls.getLast(), cuda)) {
            long to = cuda.workspace(gradient.dx().byteSize());
            gradient.write(new CudaTensor(gradient.dx().type(), to), cuda);
            cuda.show(gradient.dx(), to);
        }
    }
}
