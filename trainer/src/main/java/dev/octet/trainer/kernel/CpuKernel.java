package dev.octet.trainer.kernel;

/**
 * CPU twin of an operator: memory outside the Java heap, vectors, threads. The result must not depend on the number of threads: the problem
 * size alone determines the pieces, and sums over pieces are added in piece order.
 */
public interface CpuKernel<O extends Op> {
    /** Computes the outputs and saved values. */
    void forward(O op, Frame<CpuTensor> frame, CpuContext cpu);

    /** Computes the requested gradients. */
    void backward(O op, Frame<CpuTensor> frame, CpuContext cpu);

    /** A twin of an operator without a backward half. */
    @FunctionalInterface
    interface Forward<O extends ForwardOp> extends CpuKernel<O> {
        @Override
        default void backward(O op, Frame<CpuTensor> frame, CpuContext cpu) {
            throw op.noBackward();
        }
    }
}
