package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Statistics that take the place of earlier ones when they are complete. Until then they grow in a hidden file next to those, {@code
 * .NAME.DIGEST.new}, which is of one model and data set: a run of the same goes on with what a killed one left, a run of others removes it.
 *
 * @param output what is replaced
 * @param checkpoint where the new ones grow
 */
public record NewStatistics(Path output, Path checkpoint) {
    private static final int DIGITS = 16;

    /**
     * Begins, or goes on.
     *
     * @param modelDigest as for {@link CalibrationRun#run}
     * @throws IOException when what another run left cannot be removed
     */
    public static NewStatistics inPlaceOf(Path output, String modelDigest, Dataset data) throws IOException {
        Path folder = Objects.requireNonNull(output.toAbsolutePath().getParent());
        String name = String.valueOf(output.getFileName());
        String identity = Sha256.of(modelDigest, data.digest(), String.valueOf(data.count()))
                .substring(0, DIGITS);
        Path own = folder.resolve("." + name + "." + identity + ".new");
        Pattern left = Pattern.compile("\\." + Pattern.quote(name) + "\\.[0-9a-f]{" + DIGITS + "}\\.new(\\.pieces)?");
        List<String> others;
        try (Stream<Path> files = Files.list(folder)) {
            others = files.map(f -> String.valueOf(f.getFileName()))
                    .filter(n -> left.matcher(n).matches())
                    .map(n -> n.replaceFirst("\\.pieces$", ""))
                    .filter(n -> !n.equals(String.valueOf(own.getFileName())))
                    .toList();
        }
        for (String other : others) {
            CalibrationRun.discard(folder.resolve(other));
            Files.deleteIfExists(folder.resolve(other));
        }
        return new NewStatistics(output, own);
    }

    /** Whether there are new ones, of this run or of one that did not end. */
    public boolean begun() {
        return Files.exists(checkpoint);
    }

    /** The new ones are complete: the old ones go, and what an unfinished run left next to them. */
    public void publish() throws IOException {
        if (!begun()) { // there was nothing to measure
            return;
        }
        CalibrationRun.discard(output);
        Files.move(checkpoint, output, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
