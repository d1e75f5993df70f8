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
 * The unfinished files of this process: files under temporary names, locks, scratch folders. A program that is asked to end during its work
 * deletes them with {@link #discard()}; libraries never do, because they do not own the process.
 */
public final class Unfinished {
    private static final System.Logger LOG = System.getLogger(Unfinished.class.getName());
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final Set<Path> PATHS = new LinkedHashSet<>();

    private Unfinished() {}

    /** Creates a file or a folder. */
    @FunctionalInterface
    public interface Making<T> {
        /**
         * Creates it.
         *
         * @throws IOException when it cannot be created
         */
        T make() throws IOException;
    }

    /**
     * Creates a file or folder that {@link #discard()} deletes unless it has {@linkplain #ended ended}.
     *
     * @throws IOException as {@code making}; nothing is registered then
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
     * Creates a scratch folder in {@code parent}. The caller deletes it and reports it {@linkplain #ended ended}.
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

    /** Reports that it is deleted or has its final name. */
    public static void ended(Path path) {
        LOCK.lock();
        try {
            PATHS.remove(path.toAbsolutePath());
        } finally {
            LOCK.unlock();
        }
    }

    /**
     * Deletes all unfinished files and blocks all threads that begin or end one until the process is gone. Call it last in an ending
     * process, while other threads still run.
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

    /** Deletes links, without following them. */
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
