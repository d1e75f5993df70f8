package dev.octet.formats.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;

/**
 * What this process has begun and has not ended: files under temporary names, locks, scratch folders. A program that is asked to end while
 * it works takes them away with {@link #discard()}; libraries never do, since the process is not theirs.
 */
public final class Unfinished {
    private static final System.Logger LOG = System.getLogger(Unfinished.class.getName());
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final Set<Path> PATHS = new LinkedHashSet<>();

    private Unfinished() {}

    /** Makes a file or a folder. */
    @FunctionalInterface
    public interface Making<T> {
        /**
         * Makes it.
         *
         * @throws IOException when it cannot be made
         */
        T make() throws IOException;
    }

    /**
     * Makes a file or folder that {@link #discard()} takes away until it has {@linkplain #ended ended}.
     *
     * @throws IOException what {@code making} throws; nothing is then remembered
     */
    public static <T> T begin(Path path, Making<T> making) throws IOException {
        LOCK.lock();
        try {
            T made = making.make();
            PATHS.add(path.toAbsolutePath());
            return made;
        } finally {
            LOCK.unlock();
        }
    }

    /**
     * A new scratch folder in {@code parent}. Whoever asks for it deletes it and says that it has {@linkplain #ended ended}.
     *
     * @throws IOException when it cannot be made
     */
    static Path folder(Path parent, String prefix) throws IOException {
        LOCK.lock();
        try {
            Path folder = Files.createTempDirectory(parent, prefix);
            PATHS.add(folder.toAbsolutePath());
            return folder;
        } finally {
            LOCK.unlock();
        }
    }

    /** It is deleted, or lies under its final name. */
    public static void ended(Path path) {
        LOCK.lock();
        try {
            PATHS.remove(path.toAbsolutePath());
        } finally {
            LOCK.unlock();
        }
    }

    /**
     * Deletes all that was begun, and lets no thread begin or end anything any more: they wait until the process is gone. To be called last
     * in a process that is ending, before other threads have come to their end.
     */
    public static void discard() {
        LOCK.lock(); // never released
        for (Path path : List.copyOf(PATHS).reversed()) {
            try {
                delete(path);
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "left behind: " + path, e);
            }
        }
    }

    /** Links are deleted, not followed. */
    private static void delete(Path path) throws IOException {
        List<Path> all = new ArrayList<>(List.of(path));
        if (Files.isDirectory(path) && !Files.isSymbolicLink(path)) {
            try (Stream<Path> walk = Files.walk(path)) {
                all = walk.sorted(Comparator.reverseOrder()).toList();
            }
        }
        for (Path each : all) {
            Files.deleteIfExists(each);
        }
    }
}
