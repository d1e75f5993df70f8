package dev.octet.pipeline;

import dev.octet.converter.transform.InputChange;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.LinkedHashMap;
import java.util.Map;

/** Statistics of inputs as they are behind transforms, as far as static scales need them: the largest magnitudes. */
final class ChangedStatistics {
    private ChangedStatistics() {}

    /**
     * The statistics with the largest magnitudes of the inputs that a transform divides.
     *
     * @throws InvalidOptionException when channels are mixed, or the calibrator needs more than magnitudes
     */
    static Statistics of(Statistics statistics, ModelTransform transform, Calibrator calibrator) {
        if (transform.isNone()) {
            return statistics;
        }
        if (!(calibrator instanceof Absmax)) {
            throw new InvalidOptionException(
                    "of inputs that a transform divides, statistics tell the largest magnitude alone",
                    "--calibrator " + calibrator.text(),
                    "give --calibrator absmax, or write the transformed model with --recipe none and calibrate that");
        }
        Map<String, TensorStatistics> changed = new LinkedHashMap<>(statistics.tensors());
        transform.inputs().forEach((module, change) -> {
            TensorStatistics before = changed.get(module);
            if (before != null) {
                changed.put(module, of(module, before, change));
            }
        });
        return new Statistics(statistics.octetVersion(), statistics.modelDigest(), statistics.data(), changed);
    }

    private static TensorStatistics of(String module, TensorStatistics before, InputChange change) {
        if (change.mixes()) {
            throw new InvalidOptionException(
                    "static scales follow from statistics of the model as it was, and a rotation mixes its channels",
                    "--transform rotate with --statistics, module '" + module + "'",
                    "leave --statistics out for dynamic activations, or write the rotated model with --recipe none and"
                            + " calibrate that");
        }
        ChannelStatistics channels = before.channels();
        if (channels == null) {
            throw new InvalidDataException(
                    "the statistics have no channels of the input of '" + module + "'",
                    "--statistics",
                    "take them again: octet calibrate MODEL -o FILE --data DATA");
        }
        float largest = 0;
        for (float amax : change.amax(channels.amax()).orElseThrow()) {
            largest = Math.max(largest, amax);
        }
        if (largest == 0) {
            return before;
        }
        long[] counts = new long[LogHistogram.BIN_COUNT];
        counts[LogHistogram.binOf(largest)] = 1;
        return new TensorStatistics(1, 0, 0, 0, 0, largest, (double) largest * largest, LogHistogram.of(counts));
    }
}
