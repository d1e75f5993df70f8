package dev.octet.quant.statistics;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Statistics of a model's tensors, with their origin.
 *
 * @param octetVersion version of Octet that took the statistics
 * @param modelDigest SHA-256 of the model's file, lower-case hexadecimal
 * @param data the data sets, disjoint; not empty
 * @param tensors by value name, in the order of the run
 */
public record Statistics(
        String octetVersion, String modelDigest, List<DataPart> data, Map<String, TensorStatistics> tensors) {
    public Statistics {
        data = List.copyOf(data);
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
        if (modelDigest.isEmpty() || data.isEmpty()) {
            throw new IllegalArgumentException("statistics of no model or no data");
        }
        Set<String> digests = new HashSet<>();
        for (DataPart part : data) {
            if (!digests.add(part.digest())) {
                throw new IllegalArgumentException("data set '" + part.name() + "' is in twice");
            }
        }
    }

    /** Statistics taken by the running version of Octet. */
    public static Statistics of(String modelDigest, DataPart data, Map<String, TensorStatistics> tensors) {
        return new Statistics(OctetVersion.current(), modelDigest, List.of(data), tensors);
    }

    /** Whether all samples of every data set are included. */
    public boolean complete() {
        return data.stream().allMatch(DataPart::complete);
    }

    /** Number of included samples, over all data sets. */
    public long samplesDone() {
        return data.stream().mapToLong(DataPart::samplesDone).sum();
    }

    /**
     * Merges both, as if one run had processed both data sets. Tensors keep the order of this object.
     *
     * @throws InvalidDataException when the models differ, a data set is in both, a run is unfinished, or the tensors are not
     *     the same
     */
    public Statistics merge(Statistics other) {
        if (!modelDigest.equals(other.modelDigest)) {
            throw new InvalidDataException(
                    "the statistics are of two different models",
                    "model " + shortened(modelDigest) + " and model " + shortened(other.modelDigest),
                    "merge only statistics that were taken with the very same model file");
        }
        refuseUnfinished(this);
        refuseUnfinished(other);
        for (DataPart mine : data) {
            if (other.data.stream().anyMatch(theirs -> theirs.digest().equals(mine.digest()))) {
                throw new InvalidDataException(
                        "a data set is in both statistics and would count twice",
                        "data set '" + mine.name() + "' (" + shortened(mine.digest()) + ")",
                        "merge statistics of different samples");
            }
        }
        refuseDifferentTensors(tensors.keySet(), other.tensors.keySet());
        refuseDifferentTensors(other.tensors.keySet(), tensors.keySet());
        List<DataPart> parts = new ArrayList<>(data);
        parts.addAll(other.data);
        Map<String, TensorStatistics> sum = new LinkedHashMap<>();
        tensors.forEach((name, t) -> sum.put(name, t.merge(of(other, name))));
        return new Statistics(OctetVersion.current(), modelDigest, parts, sum);
    }

    private static void refuseDifferentTensors(Set<String> names, Set<String> others) {
        List<String> missing =
                names.stream().filter(n -> !others.contains(n)).sorted().toList();
        if (!missing.isEmpty()) {
            throw new InvalidDataException(
                    "the statistics cover different tensors",
                    "tensor '" + missing.getFirst() + "'"
                            + (missing.size() > 1 ? " and " + (missing.size() - 1) + " more" : "")
                            + " in one of them only",
                    "take both with the same recipe and the same --keep patterns");
        }
    }

    private static TensorStatistics of(Statistics s, String name) {
        return s.tensors.getOrDefault(name, TensorStatistics.EMPTY);
    }

    private static void refuseUnfinished(Statistics s) {
        for (DataPart part : s.data) {
            if (!part.complete()) {
                throw new InvalidDataException(
                        "the statistics of an interrupted run cannot be merged",
                        "data set '" + part.name() + "': " + part.samplesDone() + " of " + part.samplesTotal()
                                + " samples",
                        "run the calibration again with the same output: it continues where it stopped");
            }
        }
    }

    private static String shortened(String digest) {
        return digest.length() <= 12 ? digest : digest.substring(0, 12) + "…";
    }
}
