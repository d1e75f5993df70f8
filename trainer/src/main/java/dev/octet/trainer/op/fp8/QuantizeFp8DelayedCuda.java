package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;

/**
 * One pass: codes, their transpose where a product wants it, and the amax. For BF16 that is two bytes read and two written for each
 * element.
 */
public final class QuantizeFp8DelayedCuda implements CudaKernel.Forward<QuantizeFp8Delayed> {
    @Override
    public void forward(QuantizeFp8Delayed op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        matrix(op, x, cuda).cast("cast", List.of(x), target(op, frame, cuda));
    }

    /** Where the cast goes, with its transpose where a later step takes that. */
    static CudaCodes.Cast target(QuantizeFp8Delayed op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor codes = frame.output(0);
        return new CudaCodes.Cast(
                codes.address(),
                cuda.wanted(codes, CudaCodes.TRANSPOSED),
                frame.input(1).address(),
                frame.output(1).address(),
                history(op, frame, cuda));
    }

    /** Address of the pending amax, the history brought to where it is changed; 0 when nothing is recorded. */
    public static long history(QuantizeFp8Delayed op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.historyLength() == 0) {
            return 0;
        }
        CudaTensor from = frame.input(2);
        long history = frame.output(2).address();
        if (history != from.address()) {
            cuda.copy(from.address(), history, from.byteSize());
        }
        return history;
    }

    /** The matrix that is cast: its rows lie along the last axis of x. */
    static CudaCodes matrix(QuantizeFp8Delayed op, CudaTensor x, CudaStream cuda) {
        int cols = Math.toIntExact(x.shape().rank() == 0 ? 1 : x.shape().dim(-1));
        int rows = cols == 0 ? 0 : Math.toIntExact(x.count() / cols);
        return new CudaCodes(x, new CodedMatrix(op.format(), CodedMatrix.whole(rows, cols), null), cuda);
    }
}
