package dev.octet.pipeline;

import dev.octet.converter.transform.GraphSmoothing;
import dev.octet.converter.transform.InputChange;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.TensorStatistics;
import java.nio.FloatBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/** Statistics of inputs as they are behind transforms, as far as static scales need them: the least and the greatest number. */
final class ChangedStatistics {
    private ChangedStatistics() {}

    /**
     * The statistics of a checkpoint with the range of the inputs that a transform divides.
     *
     * @throws InvalidOptionException when channels are mixed, or the calibrator needs more than the range
     */
    static Statistics of(Statistics statistics, ModelTransform transform, Calibrator calibrator) {
        if (transform.isNone()) {
            return statistics;
        }
        requireAbsmax(calibrator, "write the transformed model with --recipe none and calibrate that");
        Map<String, TensorStatistics> changed = new LinkedHashMap<>(statistics.tensors());
        transform.inputs().forEach((module, change) -> {
            TensorStatistics before = changed.get(module);
            if (before != null) {
                changed.put(module, of("the input of '" + module + "'", before, change));
            }
        });
        return with(statistics, changed);
    }

    /**
     * The statistics of a graph with the range of its smoothed values, under their new names.
     *
     * @param inputs by the values before
     * @throws InvalidOptionException when the calibrator needs more than the range
     */
    static Statistics of(Statistics statistics, Map<String, GraphSmoothing.Changed> inputs, Calibrator calibrator) {
        requireAbsmax(calibrator, "--calibration FILE in place of --statistics");
        Map<String, TensorStatistics> changed = new LinkedHashMap<>(statistics.tensors());
        inputs.forEach((value, to) -> {
            TensorStatistics before = changed.get(value);
            if (before != null) {
                changed.put(to.value(), of("value '" + value + "'", before, to.change()));
            }
        });
        return with(statistics, changed);
    }

    private static void requireAbsmax(Calibrator calibrator, String other) {
        if (!(calibrator instanceof Absmax)) {
            throw new InvalidOptionException(
                    "of inputs that a transform divides, statistics tell the least and the greatest number alone",
                    "--calibrator " + calibrator.text(),
                    "give --calibrator absmax, or " + other);
        }
    }

    private static Statistics with(Statistics statistics, Map<String, TensorStatistics> tensors) {
        return new Statistics(statistics.octetVersion(), statistics.modelDigest(), statistics.data(), tensors);
    }

    private static TensorStatistics of(String input, TensorStatistics before, InputChange change) {
        if (change.mixes()) {
            throw new InvalidOptionException(
                    "static scales follow from statistics of the model as it was, and a rotation mixes its channels",
                    "--transform rotate with --statistics, " + input,
                    "leave --statistics out for dynamic activations, or write the rotated model with --recipe none and"
                            + " calibrate that");
        }
        ChannelStatistics channels = before.channels();
        if (channels == null) {
            throw new InvalidDataException(
                    "the statistics have no channels of " + input,
                    "--statistics",
                    "take them again: octet calibrate MODEL -o FILE --data DATA");
        }
        StatisticsAccumulator range = new StatisticsAccumulator();
        range.add(FloatBuffer.wrap(change.extrema(channels.minima()).orElseThrow()));
        range.add(FloatBuffer.wrap(change.extrema(channels.maxima()).orElseThrow()));
        TensorStatistics after = range.snapshot();
        return after.amax() == 0 ? before : after;
    }
}
