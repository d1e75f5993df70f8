package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What is known besides a configuration of another library.
 *
 * @param arguments TrainingArguments, which fill {@code "auto"}
 * @param steps of the run, where a configuration of Octet's own says them
 * @param version of the library whose defaults count, as {@code 0.17.5}; empty for the newest
 * @param onGpu whether the run computes on a GPU, whose memory is not that of the host
 */
public record Given(Optional<Section> arguments, OptionalLong steps, Optional<String> version, boolean onGpu) {
    /** Nothing. */
    public static final Given NOTHING = new Given(Optional.empty(), OptionalLong.empty(), Optional.empty(), false);

    /** The same with TrainingArguments. */
    public Given withArguments(Section all) {
        return new Given(Optional.of(all), steps, version, onGpu);
    }

    /** The same with the length of the run. */
    public Given withSteps(long newSteps) {
        return new Given(arguments, OptionalLong.of(newSteps), version, onGpu);
    }

    /** The same with a version of the library. */
    public Given withVersion(String newVersion) {
        return new Given(arguments, steps, Optional.of(newVersion), onGpu);
    }

    /** The same on a GPU or on a processor. */
    public Given on(boolean gpu) {
        return new Given(arguments, steps, version, gpu);
    }
}
