package dev.octet.pipeline;

import dev.octet.converter.transform.InputStatistics;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What a file of statistics knows of the inputs of a checkpoint's Linears, with the second moments next to it.
 *
 * @param file null without statistics
 * @param statistics null without
 * @param moments open; null without
 */
record CalibratedInputs(
        @Nullable Path file,
        @Nullable Statistics statistics,
        @Nullable SecondMomentsFile moments) implements InputStatistics, AutoCloseable {
    static CalibratedInputs none() {
        return new CalibratedInputs(null, null, null);
    }

    /**
     * The statistics of a request.
     *
     * @param model digest of the model
     * @throws InvalidDataException when they are of another model, or the moments next to them of other samples
     * @throws IOException when they cannot be read
     */
    static CalibratedInputs of(Quantize.CheckpointRequest request, String model) throws IOException {
        if (request.statistics().isEmpty()) {
            return none();
        }
        Path file = request.statistics().get();
        Statistics statistics = StatisticsFile.read(file);
        requireOf(statistics, model, request.model(), file);
        Path beside = SecondMomentsFile.besides(file);
        if (!Files.exists(beside)) {
            return new CalibratedInputs(file, statistics, null);
        }
        SecondMomentsFile moments = SecondMomentsFile.open(beside);
        try {
            moments.requireOf(statistics, file);
            return new CalibratedInputs(file, statistics, moments);
        } catch (RuntimeException e) {
            moments.close();
            throw e;
        }
    }

    /**
     * Refuses statistics of another model.
     *
     * @param digest of the model
     * @param file of the statistics
     */
    static void requireOf(Statistics statistics, String digest, Path model, Path file) {
        if (!statistics.modelDigest().equals(digest)) {
            throw new InvalidDataException(
                    "the statistics are of another model than '" + model + "'",
                    file.toString(),
                    "calibrate this model: " + CalibrateCommandLine.of(model, file, "--force"));
        }
    }

    private Optional<ChannelStatistics> channels(String module) {
        Statistics all = statistics;
        TensorStatistics of = all == null ? null : all.tensors().get(module);
        if (of != null && of.nans() + of.infinities() > 0) {
            throw new InvalidDataException(
                    "the input had " + (of.nans() + of.infinities()) + " NaN or infinite elements in calibration",
                    "module '" + module + "' in " + file,
                    "look at the data and the model; a transform has no factors for such channels");
        }
        return of == null ? Optional.empty() : Optional.ofNullable(of.channels());
    }

    @Override
    public Optional<float[]> amax(String module) {
        return channels(module).map(ChannelStatistics::amax);
    }

    @Override
    public Optional<double[]> meanMagnitude(String module) {
        return channels(module).map(c -> {
            double[] means = new double[c.size()];
            for (int i = 0; i < means.length; i++) {
                means[i] = c.meanMagnitude(i);
            }
            return means;
        });
    }

    @Override
    public boolean hasMoment(String module) {
        return moments != null && moments.held(module) != null;
    }

    @Override
    public SecondMoment moment(String module) {
        if (moments == null) {
            throw new IllegalArgumentException("there is no moment of '" + module + "'");
        }
        return moments.read(module);
    }

    @Override
    public void close() throws IOException {
        if (moments != null) {
            moments.close();
        }
    }
}
