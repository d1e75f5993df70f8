package dev.octet.trainer.kernel;

/**
 * The twin that is law: plain loops over doubles, written to be read, the derivation linked. Other twins are tested against it, and
 * it against finite differences of its own forward.
 *
 * <p>Arrays are row-major; integers and truth values are doubles, too. Gradients are zero on entry and never accumulate.
 */
public interface ReferenceKernel<O extends Op> {
    /** Computes the outputs and saved values. */
    void forward(O op, Frame<double[]> frame);

    /** Computes the wanted gradients. */
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
