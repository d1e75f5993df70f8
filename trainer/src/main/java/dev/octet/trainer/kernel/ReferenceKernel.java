package dev.octet.trainer.kernel;

/**
 * Reference twin of an operator: plain loops over doubles, written for readability, with a link to the derivation. Other twins are tested
 * against it; it is tested against finite differences of its own forward half.
 *
 * <p>Arrays are row-major; integers and booleans are doubles, too. Gradients are zero on entry and never accumulate.
 */
public interface ReferenceKernel<O extends Op> {
    /** Computes the outputs and saved values. */
    void forward(O op, Frame<double[]> frame);

    /** Computes the requested gradients. */
    void backward(O op, Frame<double[]> frame);

    /** A twin of an operator without a backward half. */
    @FunctionalInterface
    interface Forward<O extends ForwardOp> extends ReferenceKernel<O> {
        @Override
        default void backward(O op, Frame<double[]> frame) {
            throw op.noBackward();
        }
    }
}
