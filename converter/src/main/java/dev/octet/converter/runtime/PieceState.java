package dev.octet.converter.runtime;

import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The state between two pieces of a model that run in sequence: the values that cross the cut, and the statistics so far.
 *
 * <p>With a folder, both are kept there until the run ends, so that an interrupted run resumes with its current piece: {@code
 * after-<position>.values} and, written last, {@code after-<position>.statistics}; second moments of the values before the position are in
 * {@code after-<position>.moments} of this and earlier positions. Without a folder, the values lie in a temporary file
 * that disappears with the process.
 */
final class PieceState implements AutoCloseable {
    private static final Pattern FILE = Pattern.compile("after-(\\d{1,9})\\.(values|statistics|moments)|values\\.part");
    /** Second moments of the first samples of a run in one piece: {@link MomentSums}. */
    private static final Pattern SAMPLES = Pattern.compile("samples-\\d{1,9}\\.moments");

    private static final String PART = "values.part";

    private final @Nullable Path folder;
    private final String identity;
    private int position;
    private @Nullable Statistics statistics;
    private @Nullable ActivationSpill values;

    private PieceState(@Nullable Path folder, String identity) {
        this.folder = folder;
        this.identity = identity;
    }

    /** The state folder of a run with this checkpoint. */
    static Path folder(Path checkpoint) {
        return checkpoint.resolveSibling(checkpoint.getFileName() + ".pieces");
    }

    /**
     * The state left in a folder, or an empty state.
     *
     * @param checkpoint null to keep no state
     * @param identity the run's identity: a state with another identity is removed
     */
    static PieceState open(@Nullable Path checkpoint, String identity) throws IOException {
        if (checkpoint == null) {
            return new PieceState(null, identity);
        }
        PieceState state = new PieceState(folder(checkpoint), identity);
        state.find();
        return state;
    }

    private void find() throws IOException {
        OptionalInt latest = files().stream()
                .map(f -> FILE.matcher(f.getFileName().toString()))
                .filter(m -> m.matches() && "statistics".equals(m.group(2)))
                .mapToInt(m -> Integer.parseInt(m.group(1)))
                .max();
        if (latest.isPresent() && Files.exists(file(latest.getAsInt(), "values"))) {
            Statistics s = StatisticsFile.read(file(latest.getAsInt(), "statistics"));
            if (s.modelDigest().equals(identity)) {
                position = latest.getAsInt();
                statistics = s;
                values = ActivationSpill.open(file(position, "values"));
            }
        }
        removeOthers();
    }

    private List<Path> files() throws IOException {
        Path in = folder;
        if (in == null || !Files.exists(in)) {
            return List.of();
        }
        if (!Files.isDirectory(in)) {
            throw new NotDirectoryException(in.toString());
        }
        try (Stream<Path> files = Files.list(in)) {
            return files.sorted(Comparator.naturalOrder()).toList();
        }
    }

    private Path file(int at, String kind) {
        return Objects.requireNonNull(folder).resolve("after-" + at + "." + kind);
    }

    /** Removes all state files but those of the current position. */
    private void removeOthers() throws IOException {
        for (Path f : files()) {
            Matcher m = FILE.matcher(f.getFileName().toString());
            boolean present = values != null
                    && (f.equals(file(position, "values"))
                            || f.equals(file(position, "statistics"))
                            || (m.matches()
                                    && "moments".equals(m.group(2))
                                    && Integer.parseInt(m.group(1)) <= position));
            if (m.matches() && !present) {
                Files.delete(f);
            }
        }
    }

    /** The identity of the run. */
    String identity() {
        return identity;
    }

    /** The position that an interrupted run reached; 0 without one. */
    int position() {
        return position;
    }

    /** Statistics up to {@link #position()}, named by value; null at the beginning. */
    @Nullable
    Statistics statistics() {
        return statistics;
    }

    /** The values that cross the cut at {@link #position()}, rewound; null at the model's beginning. */
    @Nullable
    ActivationSpill values() throws IOException {
        if (values != null) {
            values.rewind();
        }
        return values;
    }

    /** A spill for the values that cross the next cut. Pass it to {@link #reached}, or close it. */
    ActivationSpill create() throws IOException {
        if (folder == null) {
            return ActivationSpill.temporary(Path.of(System.getProperty("java.io.tmpdir")));
        }
        Files.createDirectories(folder);
        return ActivationSpill.create(folder.resolve(PART));
    }

    /** Records a finished piece and removes the state before it. */
    void reached(int newPosition, ActivationSpill next, Statistics soFar) throws IOException {
        if (folder != null) {
            next.publish(file(newPosition, "values"));
            StatisticsFile.write(soFar, file(newPosition, "statistics"));
        }
        if (values != null) {
            values.close();
        }
        values = next;
        position = newPosition;
        statistics = soFar;
        removeOthers();
    }

    /** Removes the state at the end of the run. */
    void finished() throws IOException {
        close();
        values = null;
        remove(folder);
    }

    /** Removes the state of an earlier run with this checkpoint. */
    static void discard(Path checkpoint) throws IOException {
        PieceState left = new PieceState(folder(checkpoint), "");
        left.remove(left.folder);
    }

    private void remove(@Nullable Path in) throws IOException {
        removeOthers();
        for (Path f : files()) {
            if (SAMPLES.matcher(f.getFileName().toString()).matches()) {
                Files.delete(f);
            }
        }
        if (in != null && files().isEmpty()) {
            Files.deleteIfExists(in);
        }
    }

    @Override
    public void close() throws IOException {
        if (values != null) {
            values.close();
        }
    }
}
