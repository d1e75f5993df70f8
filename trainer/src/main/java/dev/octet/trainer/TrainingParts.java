package dev.octet.trainer;

import dev.octet.trainer.adapter.AdapterInputs;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.qat.CalibratedRanges;
import dev.octet.trainer.step.GraphSource;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The parts of a run. The caller that opened them closes them.
 *
 * @param config what to do; here with all that follows from the number of training samples
 * @param model the model to train
 * @param teacher the model to distil from, if the configuration has one
 * @param train samples to train on
 * @param eval samples to evaluate on; empty for none
 * @param ranges what calibration saw of the inputs of layers, if the configuration names statistics
 * @param adapter what the adapter of {@code config.adapter()} needs besides
 * @param inputs digests of the files read, by name ({@code model}, ...); a run resumes only if they are unchanged
 */
public record TrainingParts(
        TrainingConfig config,
        GraphSource model,
        Optional<GraphSource> teacher,
        Samples train,
        Optional<Samples> eval,
        Optional<CalibratedRanges> ranges,
        AdapterInputs adapter,
        Map<String, String> inputs) {
    public TrainingParts {
        config = config.forSamples(train.count());
        inputs = new TreeMap<>(inputs);
    }

    /** The same with what calibration saw of the inputs of layers. */
    public TrainingParts withRanges(CalibratedRanges known) {
        return new TrainingParts(config, model, teacher, train, eval, Optional.of(known), adapter, inputs);
    }

    /** The parts of a run that trains the model itself, or an adapter from the start. */
    public TrainingParts(
            TrainingConfig config,
            GraphSource model,
            Optional<GraphSource> teacher,
            Samples train,
            Optional<Samples> eval,
            Map<String, String> inputs) {
        this(config, model, teacher, train, eval, Optional.empty(), AdapterInputs.NONE, inputs);
    }
}
