package dev.octet.converter.verify;

import java.nio.file.Path;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * What to verify.
 *
 * @param consumers for whom; empty for all that read this kind of model, of a checkpoint those that load its layout
 * @param original the model this one was made from, before it was quantised; the base of an adapter
 * @param tensorParallel numbers of devices that the model must split onto; empty: one, and the largest number is reported
 * @param deep whether to read the weights too
 * @param threads for reading weights
 */
public record VerifyOptions(
        Set<Consumer> consumers, Optional<Path> original, List<Integer> tensorParallel, boolean deep, int threads) {
    public VerifyOptions {
        EnumSet<Consumer> copy = EnumSet.noneOf(Consumer.class);
        copy.addAll(consumers);
        consumers = Collections.unmodifiableSet(copy);
        tensorParallel = List.copyOf(tensorParallel);
        if (tensorParallel.stream().anyMatch(n -> n < 1)) {
            throw new IllegalArgumentException("a model is split onto one device at least: " + tensorParallel);
        }
    }

    /** For all consumers, headers and small scales only. */
    public static VerifyOptions defaults() {
        return new VerifyOptions(
                Set.of(),
                Optional.empty(),
                List.of(),
                false,
                Runtime.getRuntime().availableProcessors());
    }

    /** The same for these consumers. */
    public VerifyOptions withConsumers(Set<Consumer> value) {
        return new VerifyOptions(value, original, tensorParallel, deep, threads);
    }

    /** The same with the original to compare with. */
    public VerifyOptions withOriginal(Path value) {
        return new VerifyOptions(consumers, Optional.of(value), tensorParallel, deep, threads);
    }

    /** The same for these numbers of devices. */
    public VerifyOptions withTensorParallel(List<Integer> value) {
        return new VerifyOptions(consumers, original, value, deep, threads);
    }

    /** The same, reading weights or not. */
    public VerifyOptions withDeep(boolean value) {
        return new VerifyOptions(consumers, original, tensorParallel, value, threads);
    }

    /** The same with this many threads. */
    public VerifyOptions withThreads(int value) {
        return new VerifyOptions(consumers, original, tensorParallel, deep, value);
    }
}
