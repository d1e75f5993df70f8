package dev.octet.trainer.kernel;

import java.util.List;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * A step of a program, as input of fusions.
 *
 * @param readers from the index of an output or saved value to the number of steps that read it
 * @param upstreamReaders the same of the gradients of outputs
 * @param gradientReaders the same of the gradients of inputs
 * @param origins from the index of an input to where it comes from; null for one that is absent
 */
public record CudaCall(
        Op op,
        boolean backward,
        Frame<CudaTensor> frame,
        IntUnaryOperator readers,
        IntUnaryOperator upstreamReaders,
        IntUnaryOperator gradientReaders,
        IntFunction<@Nullable Origin> origins) {
    /**
     * Where a value comes from.
     *
     * @param value its number in the program
     * @param op the operator whose forward half makes it; null where none does
     * @param inputs numbers of what that reads; -1 for absent ones
     */
    public record Origin(int value, @Nullable Op op, List<Integer> inputs) {}

    /** Where input {@code i} comes from; null where it is absent. */
    public @Nullable Origin origin(int i) {
        return origins.apply(i);
    }

    /** Whether this is the forward half of an operator of this type. */
    public boolean isForward(Class<? extends Op> type) {
        return !backward && type.isInstance(op);
    }

    /** Whether this is the backward half of an operator of this type. */
    public boolean isBackward(Class<? extends Op> type) {
        return backward && type.isInstance(op);
    }
}
