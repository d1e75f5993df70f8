package dev.octet.trainer.step;

import dev.octet.trainer.device.StepObserver;
import org.jspecify.annotations.Nullable;

/**
 * What reads a step while it runs; changes none of its numbers.
 *
 * @param casts null to count none
 * @param tensors null to read none
 * @param products null to measure none
 */
record StepWatches(
        @Nullable Fp8Watch casts,
        @Nullable TensorWatch tensors,
        @Nullable ProductWatch products) {
    /**
     * Watches a micro-batch.
     *
     * @return null where nothing is read
     */
    @Nullable
    StepObserver of(LoadedPrograms programs, ObservedPass pass) {
        StepObserver counted = casts == null ? null : casts.of(programs.fp8().layers(), programs.experts());
        StepObserver read = tensors == null ? null : tensors.observer(pass, programs.experts());
        StepObserver measured = products == null ? null : products.observer(pass, programs.experts());
        return both(both(counted, read), measured);
    }

    /** The ranks of a step have ended it: each is told what the others have read. */
    void share(SessionRanks ranks) {
        if (products != null) {
            products.share(ranks.world());
        }
        if (tensors != null) {
            tensors.share(ranks.world());
        }
    }

    static @Nullable StepObserver both(@Nullable StepObserver one, @Nullable StepObserver other) {
        if (one == null || other == null) {
            return one == null ? other : one;
        }
        return (step, nanos, running) -> {
            one.after(step, nanos, running);
            other.after(step, nanos, running);
        };
    }
}
