package dev.octet.trainer.kernel;

/**
 * The twin for processors: memory outside the heap, vectors, threads. The result must not depend on the number of threads: work is
 * cut into pieces by the problem's size alone, and sums over pieces are added in the order of the pieces.
 */
public interface CpuKernel<O extends Op> {
    /** Computes the outputs and saved values. */
    void forward(O op, Frame<CpuTensor> frame, CpuContext cpu);

    /** Computes the wanted gradients. */
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
