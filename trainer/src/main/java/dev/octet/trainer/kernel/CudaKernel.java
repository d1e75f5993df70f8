package dev.octet.trainer.kernel;

/**
 * NVIDIA GPU twin of an operator. It does not compute; it emits work to a {@link CudaStream} once, when a program is loaded, and the work
 * then runs in every step. Therefore the work may depend on the operator and on types and addresses of operands, but never on elements.
 *
 * <p>Results must not depend on the order in which blocks run: no floating-point atomics, sums in a fixed order. Codes and scales are
 * bitwise equal to the reference twin's; sums are F32, within the error bound of the operator's test.
 */
public interface CudaKernel<O extends Op> {
    /** Emits the work that computes the outputs and saved values. */
    void forward(O op, Frame<CudaTensor> frame, CudaStream cuda);

    /** Emits the work that computes the requested gradients. */
    void backward(O op, Frame<CudaTensor> frame, CudaStream cuda);

    /** Whether input {@code i}, and its gradient, may be columns of a tensor with longer rows ({@link CudaTensor#pitch}). */
    default boolean takesParts(O op, int i) {
        return false;
    }

    /**
     * Elements from one row of result 0 to the next with which it is written without a copy; what lies behind the rows does not matter. 0 where rows lie one behind the other.
     * A result that is read outside, or by a kernel that does not take such rows, has none.
     */
    default long rowPitch(O op, CudaStream cuda) {
        return 0;
    }

    /** Whether input {@code i} may have such rows, and its gradient, which then is written with zeros behind them. */
    default boolean takesLongRows(O op, int i) {
        return false;
    }

    /** Whether backward takes the gradient of a result with long rows ({@link #rowPitch}) with rows as long, zeros behind them. */
    default boolean takesLongGradient(O op) {
        return false;
    }

    /** A twin of an operator without a backward half. */
    @FunctionalInterface
    interface Forward<O extends ForwardOp> extends CudaKernel<O> {
        @Override
        default void backward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
            throw op.noBackward();
        }
    }
}
