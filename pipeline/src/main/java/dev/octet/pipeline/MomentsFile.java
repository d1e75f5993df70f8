package dev.octet.pipeline;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.gptq.SecondMoments.Held;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The second moments that belong to a file of statistics: a file next to it, whose metadata name the same model, data and samples.
 *
 * @param statistics the file of statistics
 */
record MomentsFile(Path statistics) {
    /** {@code model.stats.moments} for {@code model.stats}. */
    Path path() {
        return SecondMomentsFile.besides(statistics);
    }

    boolean exists() {
        return Files.exists(path());
    }

    /**
     * Opens the file.
     *
     * @param taken the statistics
     * @throws InvalidDataException when it is not a file of second moments, or of another model or other samples than the statistics
     */
    SecondMomentsFile open(Statistics taken) throws IOException {
        SecondMomentsFile file = SecondMomentsFile.open(path());
        try {
            file.requireOf(taken, statistics);
            return file;
        } catch (RuntimeException e) {
            file.close();
            throw e;
        }
    }

    /**
     * Reads the moments of values of a graph.
     *
     * @param taken the statistics
     * @param modules names of the modules that read a value, for files that name them so: {@code ModuleTaps.byValue}
     * @throws InvalidDataException as {@link #open}
     */
    Map<String, SecondMoment> read(Statistics taken, Map<String, List<String>> modules) throws IOException {
        try (SecondMomentsFile file = open(taken)) {
            Map<String, SecondMoment> moments = new LinkedHashMap<>();
            for (String name : file.names()) {
                if (!modules.values().stream().anyMatch(m -> m.contains(name))) {
                    moments.put(name, file.read(name));
                }
            }
            modules.forEach((value, names) -> names.stream()
                    .filter(n -> file.held(n) != null)
                    .findFirst()
                    .ifPresent(n -> moments.putIfAbsent(value, file.read(n))));
            return moments;
        }
    }

    /**
     * Writes the sums of the moments next to several files of statistics, one activation in memory at a time.
     *
     * @param parts files of statistics with what was read from them
     * @param merged the statistics that they make
     * @throws InvalidDataException when they are of other activations
     */
    void writeMerged(Map<Path, Statistics> parts, Statistics merged) throws IOException {
        List<SecondMomentsFile> open = new ArrayList<>();
        try {
            for (Map.Entry<Path, Statistics> part : parts.entrySet()) {
                SecondMomentsFile file = new MomentsFile(part.getKey()).open(part.getValue());
                open.add(file);
                if (!sizes(file).equals(sizes(open.getFirst()))) {
                    throw new InvalidDataException(
                            "the second moments are of other activations than those of the files before",
                            new MomentsFile(part.getKey()).path().toString(),
                            "merge files that one version of Octet took of one model");
                }
            }
            SecondMoments.Contents first = open.getFirst().contents();
            Map<String, Held> sums = new LinkedHashMap<>();
            first.byName().forEach((name, held) -> {
                long rows = 0;
                for (SecondMomentsFile file : open) {
                    rows = Math.addExact(
                            rows, Objects.requireNonNull(file.held(name)).rows());
                }
                sums.put(name, new Held(held.size(), rows));
            });
            SecondMoments.Contents contents = new SecondMoments.Contents(
                    OctetVersion.current(), sums, first.same(), SecondMomentsFile.origin(merged));
            SecondMoments.write(path(), contents, name -> {
                SecondMoment sum = open.getFirst().read(name);
                open.subList(1, open.size()).forEach(file -> sum.merge(file.read(name)));
                return sum;
            });
        } finally {
            for (SecondMomentsFile file : open) {
                file.close();
            }
        }
    }

    private static Map<String, Integer> sizes(SecondMomentsFile file) {
        Map<String, Integer> sizes = new HashMap<>();
        file.names()
                .forEach(name ->
                        sizes.put(name, Objects.requireNonNull(file.held(name)).size()));
        return sizes;
    }
}
