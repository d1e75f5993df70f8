package dev.octet.trainer.hook;

import java.util.Locale;

/** A problem with a tensor in FP8. */
public record Fp8Warning(Fp8Tensor tensor, Kind kind) {
    /** Kind of problem. */
    public enum Kind {
        /** More than {@link Fp8Health#MOST_CLIPPED} of the elements were clipped. */
        CLIPPED,
        /** The scale does not follow the amax; see {@link Fp8Health#MOST_DRIFT}. */
        STALE
    }

    /** The warning as one line, with numbers. */
    public String sentence() {
        return switch (kind) {
            case CLIPPED ->
                String.format(
                        Locale.ROOT,
                        "%.2f%% of %s clipped: amax %.4g, its scale has room for %.4g",
                        100 * tensor.clippedShare(),
                        tensor.name(),
                        tensor.amax(),
                        tensor.room());
            case STALE ->
                String.format(
                        Locale.ROOT,
                        "the scale of %s has stayed for %d steps: amax %.4g, it has room for %.4g",
                        tensor.name(),
                        tensor.scaleAge(),
                        tensor.amax(),
                        tensor.room());
        };
    }
}
