package dev.octet.pipeline;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;

/**
 * The second moments that belong to a file of statistics: a file next to it, whose metadata name the same model, data and samples.
 *
 * @param statistics the file of statistics
 */
record MomentsFile(Path statistics) {
    private static final String ENDING = ".moments";
    /** Metadata entry with the SHA-256 of the model. */
    static final String MODEL = "octet.model";

    private static final String DATA = "octet.data";
    /** Metadata entry with the number of samples. */
    static final String SAMPLES = "octet.samples";

    /** {@code model.stats.moments} for {@code model.stats}. */
    Path path() {
        return statistics.resolveSibling(statistics.getFileName() + ENDING);
    }

    boolean exists() {
        return Files.exists(path());
    }

    /** Writes the file atomically. */
    void write(Map<String, SecondMoment> moments, Statistics taken) throws IOException {
        new SecondMoments(moments, origin(taken)).write(path());
    }

    /**
     * Reads the file.
     *
     * @param taken the statistics
     * @throws InvalidDataException when it is not a file of second moments, or of another model or other samples than the statistics
     */
    Map<String, SecondMoment> read(Statistics taken) throws IOException {
        SecondMoments moments = SecondMoments.read(path());
        origin(taken).forEach((key, value) -> {
            if (!value.equals(moments.metadata().get(key))) {
                throw new InvalidDataException(
                        "the second moments are of " + (key.equals(MODEL) ? "another model" : "other samples")
                                + " than the statistics " + statistics,
                        path().toString(),
                        "calibrate again with --second-moments --force, or delete this file to round to nearest");
            }
        });
        return moments.byName();
    }

    private static Map<String, String> origin(Statistics taken) {
        Map<String, String> origin = new LinkedHashMap<>();
        origin.put(MODEL, taken.modelDigest());
        origin.put(DATA, taken.data().stream().map(DataPart::digest).collect(Collectors.joining(",")));
        origin.put(SAMPLES, Long.toString(taken.samplesDone()));
        return origin;
    }

    /**
     * Adds the moments of other samples of the same model.
     *
     * @param more of the file {@code from}
     * @throws InvalidDataException when they are of other activations
     */
    static void merge(Map<String, SecondMoment> moments, Map<String, SecondMoment> more, Path from) {
        if (!sizes(moments).equals(sizes(more))) {
            throw new InvalidDataException(
                    "the second moments are of other activations than those of the files before",
                    new MomentsFile(from).path().toString(),
                    "merge files that one version of Octet took of one model");
        }
        moments.forEach((name, moment) -> moment.merge(Objects.requireNonNull(more.get(name))));
    }

    private static Map<String, Integer> sizes(Map<String, SecondMoment> moments) {
        return moments.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().size()));
    }
}
