package dev.octet.trainer.kernel;

/**
 * The twin for NVIDIA GPUs. It computes nothing itself: it writes what has to run to a {@link CudaStream}, once, when a program is made
 * ready; the work is then run at every step. So what it writes may depend on the operator and the operands' types and addresses, never on
 * elements.
 *
 * <p>Results must not depend on the order in which blocks run: no floating-point atomics, sums in a fixed order. Codes and scales are equal to
 * the Reference twin's to the bit; sums are F32 within the bound its test states.
 */
public interface CudaKernel<O extends Op> {
    /** Writes the work that computes the outputs and saved values. */
    void forward(O op, Frame<CudaTensor> frame, CudaStream cuda);

    /** Writes the work that computes the wanted gradients. */
    void backward(O op, Frame<CudaTensor> frame, CudaStream cuda);

    /** A twin of an operator without a backward half. */
    @FunctionalInterface
    interface Forward<O extends ForwardOp> extends CudaKernel<O> {
        @Override
        default void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
            throw op.noBackward();
        }
    }
}
