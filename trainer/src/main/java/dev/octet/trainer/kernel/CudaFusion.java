package dev.octet.trainer.kernel;

import java.util.List;
import java.util.function.BiPredicate;

/**
 * Fuses consecutive steps into fewer launches. Results that other steps read equal those of the separate steps: bitwise for codes, scales
 * and amaxes, within the twins' error bounds for sums.
 */
public interface CudaFusion {
    /** Number of calls from index {@code at} on that this fusion covers; 0 when it does not match. */
    int length(List<CudaCall> calls, int at);

    /**
     * Number of calls from index {@code at} on that one launch can do: each is like the first, and has as its first input nothing that one before it makes.
     * 0 where that is one call or none.
     *
     * @param alike whether its second argument can be launched with its first; also asked of the first alone
     */
    static int alike(List<CudaCall> calls, int at, BiPredicate<CudaCall, CudaCall> alike) {
        int end = at;
        while (end < calls.size()
                && alike.test(calls.get(at), calls.get(end))
                && isApart(calls.subList(at, end), calls.get(end).frame().input(0))) {
            end++;
        }
        return end - at > 1 ? end - at : 0;
    }

    private static boolean isApart(List<CudaCall> before, CudaTensor x) {
        return before.stream().noneMatch(c -> c.frame().output(0).equals(x));
    }

    /** Emits the fused work. */
    void write(List<CudaCall> calls, CudaStream cuda);

    /** Whether observed steps run one by one ({@link #writeAlone}), because one changes what another has made. */
    default boolean isSeenAlone() {
        return false;
    }

    /**
     * Emits the steps one by one.
     *
     * @param done called behind each of them
     */
    default void writeAlone(List<CudaCall> calls, CudaStream cuda, Runnable done) {
        throw new UnsupportedOperationException("steps that are seen together");
    }

    /**
     * Emits what {@link #write} leaves out because no step reads it: run before the fused work on observed steps that do not run one by one. Nothing by default.
     */
    default void writeUnread(List<CudaCall> calls, CudaStream cuda) {}
}
