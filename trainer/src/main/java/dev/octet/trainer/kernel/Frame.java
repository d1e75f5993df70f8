package dev.octet.trainer.kernel;

/**
 * The operands of one call of a twin. Forward reads inputs and writes outputs. Backward reads upstream gradients (of the outputs) and the
 * inputs and outputs it declared ({@link Op#backwardReadsInput}), and writes gradients (of the inputs).
 *
 * @param <T> the device's representation of a tensor
 */
public interface Frame<T> {
    /** Whether the optional input {@code i} is present. */
    boolean hasInput(int i);

    /**
     * Input {@code i}.
     *
     * @throws IllegalStateException when it is absent, or not kept for backward
     */
    T input(int i);

    /** Output {@code j}; saved values follow the node's outputs. */
    T output(int j);

    /** Whether output {@code j} has a gradient; an unused output has none, which means zero. */
    boolean hasUpstream(int j);

    /** Gradient of the loss with respect to output {@code j}. */
    T upstream(int j);

    /** Whether the gradient of input {@code i} is requested; backward must not compute others. */
    boolean wantsGradient(int i);

    /** Destination of the gradient of input {@code i}. Its contents are undefined unless {@link #accumulates}. */
    T gradient(int i);

    /** Whether to add the gradient of input {@code i} to its destination. Only for operators that support it ({@link Op#canAccumulate}). */
    boolean accumulates(int i);
}
