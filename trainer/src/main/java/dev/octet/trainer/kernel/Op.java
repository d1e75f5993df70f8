package dev.octet.trainer.kernel;

import java.util.List;
import java.util.function.IntPredicate;

/**
 * An operator with its attributes, at concrete shapes and element types. Implementations are immutable records whose {@code toString}
 * appears in printed programs. An operator describes what programs need to know; its twins ({@link ReferenceKernel}, {@link CpuKernel},
 * {@link CudaKernel}) compute.
 *
 * <p>Inputs are numbered as in the ONNX node. Outputs are those of the node, followed by {@link #saved()}: values that forward computes
 * only for backward, for example the mean and reciprocal standard deviation of a normalisation.
 *
 * <p>Element types only affect storage: a twin computes in F32 (the reference in F64) and rounds to nearest even when it writes. Mixed
 * precision therefore is a matter of casts between operators.
 */
public interface Op {
    /** Name for prints and messages; the ONNX operator's name if there is one. */
    String type();

    /** Types of the node's outputs. */
    List<OperandType> outputs();

    /** Types of the values that forward saves for backward, in addition to the outputs. */
    default List<OperandType> saved() {
        return List.of();
    }

    /** Whether a gradient flows to input {@code i}. Called for float inputs only: integers and booleans never have gradients. */
    default boolean isDifferentiable(int i) {
        return true;
    }

    /** Whether backward reads input {@code i}; inputs that are not read need not be kept. */
    boolean backwardReadsInput(int i);

    /**
     * Whether backward reads input {@code i} when it computes only some gradients. For example, the gradient of a value that is multiplied
     * by a constant needs only the constant, so the value need not be kept.
     *
     * @param wanted accepts the indices of the inputs whose gradients are computed
     */
    default boolean backwardReadsInput(int i, IntPredicate wanted) {
        return backwardReadsInput(i);
    }

    /** Whether backward reads output {@code j} of the node. {@link #saved()} values follow the outputs and are always kept. */
    default boolean backwardReadsOutput(int j) {
        return false;
    }

    /**
     * Whether output 0 is a view of input 0 (another shape; same elements, order and type). Nothing is then computed, forward or backward,
     * and the two share memory.
     */
    default boolean isView() {
        return false;
    }

    /**
     * Whether the gradient of input {@code i} equals the upstream gradient of output 0 (same type and shape), as for an addend. The program
     * then uses one value for both, and backward does not compute it.
     */
    default boolean passesGradient(int i) {
        return false;
    }

    /**
     * Whether backward can add the gradient of input {@code i} to its destination ({@link Frame#accumulates}) instead of overwriting it;
     * matrix products do so at no cost. For other operators the program adds a separate step.
     */
    default boolean canAccumulate(int i) {
        return false;
    }

    /**
     * Type of the gradient of input {@code i}: that of the input itself, unless that holds codes, whose gradient is that of the numbers they stand for.
     *
     * @param x type of the input
     */
    default OperandType gradientType(int i, OperandType x) {
        return x;
    }

    /** Whether forward reads input {@code i}; others are there for backward alone. */
    default boolean forwardReadsInput(int i) {
        return true;
    }

    /** Whether a step may run twice in a micro-batch; one that takes what another rank sends once may not. */
    default boolean isRepeatable() {
        return true;
    }

    /**
     * This operator for a step that computes the same results once more: it changes no state. Its inputs are those of this operator, with
     * states as they were the first time; one that it does not read is absent. Its outputs are the first of this operator's.
     */
    default Op again() {
        return this;
    }
}
