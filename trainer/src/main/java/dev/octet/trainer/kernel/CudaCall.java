package dev.octet.trainer.kernel;

import java.util.function.IntUnaryOperator;

/**
 * A step of a program, as input of fusions.
 *
 * @param readers from the index of an output or saved value to the number of steps that read it
 * @param upstreamReaders the same of the gradients of outputs
 * @param gradientReaders the same of the gradients of inputs
 */
public record CudaCall(
        Op op,
        boolean backward,
        Frame<CudaTensor> frame,
        IntUnaryOperator readers,
        IntUnaryOperator upstreamReaders,
        IntUnaryOperator gradientReaders) {
    /** Whether this is the forward half of an operator of this type. */
    public boolean isForward(Class<? extends Op> type) {
        return !backward && type.isInstance(op);
    }

    /** Whether this is the backward half of an operator of this type. */
    public boolean isBackward(Class<? extends Op> type) {
        return backward && type.isInstance(op);
    }
}
