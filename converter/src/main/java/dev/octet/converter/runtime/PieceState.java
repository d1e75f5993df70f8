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
 * What lies between two pieces of a model that run one after the other: the values that cross the cut, and the statistics so far.
 *
 * <p>With a folder both stay there until the run is over, so that an interrupted one goes on with the piece it was in: {@code
 * after-<position>.values} and, written last, {@code after-<position>.statistics}. Without one the values lie in a temporary file that
 * no process leaves behind.
 */
final class PieceState implements AutoCloseable {
    private static final Pattern FILE = Pattern.compile("after-(\\d{1,9})\\.(values|statistics)|values\\.part");
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

    /** Where a run with this checkpoint keeps its state. */
    static Path folder(Path checkpoint) {
        return checkpoint.resolveSibling(checkpoint.getFileName() + ".pieces");
    }

    /**
     * The state that was left in a folder, or none.
     *
     * @param checkpoint null to leave nothing behind
     * @param identity what state may be gone on from: it says so itself; anything else is removed
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

    /** All files of ours but those of the present position. */
    private void removeOthers() throws IOException {
        for (Path f : files()) {
            Matcher m = FILE.matcher(f.getFileName().toString());
            boolean present =
                    values != null && (f.equals(file(position, "values")) || f.equals(file(position, "statistics")));
            if (m.matches() && !present) {
                Files.delete(f);
            }
        }
    }

    /** What the state is of. */
    String identity() {
        return identity;
    }

    /** How far an interrupted run came; 0 when there was none. */
    int position() {
        return position;
    }

    /** Statistics up to {@link #position()}, named by value; null at the beginning. */
    @Nullable
    Statistics statistics() {
        return statistics;
    }

    /** What crosses the cut at {@link #position()}, at its beginning; null at the model's beginning. */
    @Nullable
    ActivationSpill values() throws IOException {
        if (values != null) {
            values.rewind();
        }
        return values;
    }

    /** For what crosses the next cut. To be given back to {@link #reached}, or closed. */
    ActivationSpill create() throws IOException {
        if (folder == null) {
            return ActivationSpill.temporary(Path.of(System.getProperty("java.io.tmpdir")));
        }
        Files.createDirectories(folder);
        return ActivationSpill.create(folder.resolve(PART));
    }

    /** A piece is done; what lay before it goes. */
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

    /** The run is over: nothing of the state stays. */
    void finished() throws IOException {
        close();
        values = null;
        remove(folder);
    }

    /** Removes the state that a run with this checkpoint left. */
    static void discard(Path checkpoint) throws IOException {
        PieceState left = new PieceState(folder(checkpoint), "");
        left.remove(left.folder);
    }

    private void remove(@Nullable Path in) throws IOException {
        removeOthers();
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
