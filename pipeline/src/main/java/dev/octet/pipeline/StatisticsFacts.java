package dev.octet.pipeline;

import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a file of calibration says: statistics of activations, or their second moments.
 *
 * @param path the file
 * @param kind {@code statistics} or {@code second-moments}
 * @param fileBytes size on disk
 * @param octet version that wrote it; empty when the file does not say
 * @param model SHA-256 of the model's file; null when the file does not say
 * @param complete whether all samples of the data are in it
 * @param samples how many are; 0 when the file does not say
 * @param data the data sets
 * @param activations in the order of the file
 */
public record StatisticsFacts(
        String path,
        String kind,
        long fileBytes,
        String octet,
        @Nullable String model,
        boolean complete,
        long samples,
        List<DataPart> data,
        List<Activation> activations) {
    /**
     * One activation.
     *
     * @param elements numbers seen, or rows of second moments
     * @param min least finite number; null in second moments
     * @param max greatest finite number; null in second moments
     * @param rms root of the mean square of the finite numbers; null in second moments
     * @param notFinite NaN and infinite numbers
     * @param channels of a row of second moments; null in statistics
     */
    public record Activation(
            String name,
            long elements,
            @Nullable Float min,
            @Nullable Float max,
            @Nullable Double rms,
            long notFinite,
            @Nullable Integer channels) {}

    public StatisticsFacts {
        data = List.copyOf(data);
        activations = List.copyOf(activations);
    }

    /**
     * Reads a file of statistics.
     *
     * @throws dev.octet.formats.error.InvalidDataException when it is not one
     * @throws IOException when it cannot be read
     */
    static StatisticsFacts ofStatistics(Path path) throws IOException {
        Statistics statistics = StatisticsFile.read(path);
        List<Activation> activations = new ArrayList<>();
        statistics.tensors().forEach((name, t) -> activations.add(activation(name, t)));
        return new StatisticsFacts(
                path.toString(),
                "statistics",
                Files.size(path),
                statistics.octetVersion(),
                statistics.modelDigest(),
                statistics.complete(),
                statistics.samplesDone(),
                statistics.data(),
                activations);
    }

    private static Activation activation(String name, TensorStatistics t) {
        long finite = t.count() - t.nans() - t.infinities();
        double rms = finite == 0 ? 0 : Math.sqrt(t.sumOfSquares() / finite);
        return new Activation(name, t.count(), t.min(), t.max(), rms, t.nans() + t.infinities(), null);
    }

    /**
     * Reads a file of second moments.
     *
     * @throws dev.octet.formats.error.InvalidDataException when it is not one
     * @throws IOException when it cannot be read
     */
    static StatisticsFacts ofSecondMoments(Path path) throws IOException {
        SecondMoments.Contents moments = SecondMoments.contents(path);
        List<Activation> activations = new ArrayList<>();
        moments.byName()
                .forEach((name, held) ->
                        activations.add(new Activation(name, held.rows(), null, null, null, 0, held.size())));
        return new StatisticsFacts(
                path.toString(),
                "second-moments",
                Files.size(path),
                moments.octet(),
                moments.metadata().get(SecondMomentsFile.MODEL),
                true,
                samples(moments.metadata().getOrDefault(SecondMomentsFile.SAMPLES, "")),
                List.of(),
                activations);
    }

    private static long samples(String text) {
        return text.matches("\\d{1,18}") ? Long.parseLong(text) : 0;
    }
}
