package dev.octet.trainer;

import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.step.GraphSource;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * What a run is made of. Whoever opened the parts closes them.
 *
 * @param model what is trained
 * @param teacher whose output is matched; where the configuration says so
 * @param train samples to train on
 * @param eval samples to evaluate on; empty for none
 * @param inputs digests of what was read, by name such as {@code model}; a run goes on only with the same
 */
public record TrainingParts(
        TrainingConfig config,
        GraphSource model,
        Optional<GraphSource> teacher,
        Samples train,
        Optional<Samples> eval,
        Map<String, String> inputs) {
    public TrainingParts {
        inputs = new TreeMap<>(inputs);
    }
}
