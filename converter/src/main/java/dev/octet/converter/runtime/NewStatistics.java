package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.formats.file.Sha256;
import dev.octet.quant.gptq.SecondMomentsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Statistics that replace an earlier file once they are complete. Until then they are written to a hidden file next to it, {@code
 * .NAME.DIGEST.new}, specific to a model and data set: a run with the same model and data resumes from a killed run's file, a run with
 * others removes it.
 *
 * @param output the file to replace
 * @param checkpoint the hidden file
 */
public record NewStatistics(Path output, Path checkpoint) {
    private static final int DIGITS = 16;

    /**
     * Begins or resumes.
     *
     * @param modelDigest as for {@link CalibrationRun#run}
     * @throws IOException when files of another run cannot be removed
     */
    public static NewStatistics inPlaceOf(Path output, String modelDigest, Dataset data) throws IOException {
        Path folder = Objects.requireNonNull(output.toAbsolutePath().getParent());
        String name = String.valueOf(output.getFileName());
        String identity = Sha256.of(modelDigest, data.digest(), String.valueOf(data.count()))
                .substring(0, DIGITS);
        Path own = folder.resolve("." + name + "." + identity + ".new");
        Pattern left = Pattern.compile(
                "\\." + Pattern.quote(name) + "\\.[0-9a-f]{" + DIGITS + "}\\.new(\\.pieces|\\.moments)?");
        List<String> others;
        try (Stream<Path> files = Files.list(folder)) {
            others = files.map(f -> String.valueOf(f.getFileName()))
                    .filter(n -> left.matcher(n).matches())
                    .map(n -> n.replaceFirst("\\.(pieces|moments)$", ""))
                    .distinct()
                    .filter(n -> !n.equals(String.valueOf(own.getFileName())))
                    .toList();
        }
        for (String other : others) {
            CalibrationRun.discard(folder.resolve(other));
            Files.deleteIfExists(folder.resolve(other));
            Files.deleteIfExists(SecondMomentsFile.besides(folder.resolve(other)));
        }
        return new NewStatistics(output, own);
    }

    /** Whether the hidden file exists, from this run or an unfinished one. */
    public boolean begun() {
        return Files.exists(checkpoint);
    }

    /** Replaces the old file by the complete new one, and removes the files of unfinished runs. */
    public void publish() throws IOException {
        if (!begun()) { // there was nothing to measure
            return;
        }
        CalibrationRun.discard(output);
        Path moments = SecondMomentsFile.besides(checkpoint);
        if (Files.exists(moments)) {
            Files.move(
                    moments,
                    SecondMomentsFile.besides(output),
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        }
        Files.move(checkpoint, output, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
