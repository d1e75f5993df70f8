package dev.octet.trainer.kernel;

import java.util.List;
import java.util.function.IntPredicate;

/**
 * One operator with its attributes, at concrete shapes and element types: immutable, a record, whose {@code toString} is what a
 * printed program shows. It says what a program has to know; its twins ({@link ReferenceKernel}, {@link CpuKernel}) compute.
 *
 * <p>Inputs are numbered as the ONNX node has them. Outputs are those of the node, followed by {@link #saved()}: values that forward
 * leaves for backward only, such as the mean and the reciprocal deviation of a normalisation.
 *
 * <p>Element types: a twin computes in F32 (the reference in F64) whatever the types of its operands are, and rounds to nearest even
 * when it writes; so a type is a matter of storage, and mixed precision is a matter of casts between operators.
 */
public interface Op {
    /** Name for prints and messages, that of the ONNX operator where there is one. */
    String type();

    /** Types of the node's outputs. */
    List<OperandType> outputs();

    /** Types of the values forward leaves for backward besides the outputs. */
    default List<OperandType> saved() {
        return List.of();
    }

    /** Whether a gradient flows to input {@code i}. Asked for inputs of a float type only: integers and truth values never have one. */
    default boolean isDifferentiable(int i) {
        return true;
    }

    /** Whether backward reads the value of input {@code i}; what nobody reads is not kept. */
    boolean backwardReadsInput(int i);

    /**
     * Whether backward reads the value of input {@code i} when only wanted gradients are computed: the gradient of a value that is
     * multiplied by a constant needs the constant only, and the value need not be kept.
     *
     * @param wanted numbers of the inputs whose gradient is computed
     */
    default boolean backwardReadsInput(int i, IntPredicate wanted) {
        return backwardReadsInput(i);
    }

    /** Whether backward reads output {@code j}, counting {@link #saved()} on from the node's outputs. Saved values are always kept. */
    default boolean backwardReadsOutput(int j) {
        return false;
    }

    /**
     * Whether output 0 is input 0 in other words (another shape, the same elements in the same order and type): nothing is computed
     * then, forward and backward; the two share memory.
     */
    default boolean isView() {
        return false;
    }

    /**
     * Whether the gradient of input {@code i} is the upstream gradient of output 0 as it is (same type and shape): an addend's. The
     * program then lets the one stand for the other, and backward is not asked to compute it.
     */
    default boolean passesGradient(int i) {
        return false;
    }

    /**
     * Whether backward can add to what input {@code i}'s gradient holds already ({@link Frame#accumulates}) instead of writing it: a
     * product does it for nothing. For other operators the program adds afterwards.
     */
    default boolean canAccumulate(int i) {
        return false;
    }
}
