package dev.octet.trainer.kernel;

import java.util.function.IntUnaryOperator;

/**
 * A step of a program, for those that do several at once.
 *
 * @param readers for the number of an output or saved value, how many steps of the program read it
 */
public record CudaCall(Op op, boolean backward, Frame<CudaTensor> frame, IntUnaryOperator readers) {
    /** Whether this is the forward half of such an operator. */
    public boolean isForward(Class<? extends Op> type) {
        return !backward && type.isInstance(op);
    }

    /** Whether this is the backward half of such an operator. */
    public boolean isBackward(Class<? extends Op> type) {
        return backward && type.isInstance(op);
    }
}
