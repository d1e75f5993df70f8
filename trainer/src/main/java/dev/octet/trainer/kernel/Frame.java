package dev.octet.trainer.kernel;

/**
 * The operands of one call of a twin. Forward reads inputs and writes outputs; backward reads upstream gradients (of the outputs)
 * and those inputs and outputs it asked for ({@link Op#backwardReadsInput}), and writes gradients (of the inputs).
 *
 * @param <T> how a device holds a tensor
 */
public interface Frame<T> {
    /** Whether the optional input {@code i} is there. */
    boolean hasInput(int i);

    /**
     * Input {@code i}.
     *
     * @throws IllegalStateException when it is absent, or not kept for backward
     */
    T input(int i);

    /** Output {@code j}; the operator's saved values count on from the node's outputs. */
    T output(int j);

    /** Whether output {@code j} has a gradient: an output nobody uses has none, which means zero. */
    boolean hasUpstream(int j);

    /** Gradient of the loss with respect to output {@code j}. */
    T upstream(int j);

    /** Whether the gradient of input {@code i} is wanted; backward must not compute others. */
    boolean wantsGradient(int i);

    /** Where the gradient of input {@code i} goes. Its old content is meaningless unless {@link #accumulates}. */
    T gradient(int i);

    /** Whether the gradient of input {@code i} is to be added to what is there. Only for operators that say they can. */
    boolean accumulates(int i);
}
