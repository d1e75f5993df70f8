package dev.octet.converter.checkpoint;

import dev.octet.formats.file.FolderLock;
import dev.octet.formats.file.Unfinished;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * The working folder of an export: {@code .octet-export-NAME} next to the output NAME, on the same disk because the masters are large. It
 * holds the masters, and the new output until that is complete. {@link #close()} deletes the folder; the next export to the same output
 * deletes the folders of killed processes.
 */
public final class MastersFolder implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(MastersFolder.class.getName());
    private static final String PREFIX = ".octet-export-";
    /** Suffix of the lock file next to the folder. A process takes the lock before it makes the folder, so an unlocked folder is unused. */
    private static final String LOCK = ".lock";

    private final Path path;
    private final FolderLock lock;

    private MastersFolder(Path path, FolderLock lock) {
        this.path = path;
        this.lock = lock;
    }

    /**
     * Makes an empty folder.
     *
     * @param output the output of the export
     * @throws FileSystemException when another process exports to the same output
     * @throws IOException when the folder of the output is missing or not writable
     */
    public static MastersFolder beside(Path output) throws IOException {
        Path parent = Objects.requireNonNull(output.toAbsolutePath().getParent());
        sweep(parent);
        String name = PREFIX + output.getFileName();
        FolderLock lock = FolderLock.of(parent, name + LOCK);
        try {
            Path path = parent.resolve(name);
            WholeFolder.delete(path);
            return new MastersFolder(Unfinished.begin(path, () -> Files.createDirectory(path)), lock);
        } catch (IOException | RuntimeException e) {
            lock.close();
            throw e;
        }
    }

    private static void sweep(Path parent) throws IOException {
        TreeSet<String> names = new TreeSet<>();
        try (Stream<Path> entries = Files.list(parent)) {
            entries.map(p -> String.valueOf(p.getFileName()))
                    .filter(n -> n.startsWith(PREFIX))
                    .map(n -> n.endsWith(LOCK) ? n.substring(0, n.length() - LOCK.length()) : n)
                    .forEach(names::add);
        }
        for (String name : names) {
            try (FolderLock _ = FolderLock.of(parent, name + LOCK)) {
                WholeFolder.delete(parent.resolve(name));
            } catch (FileSystemException e) {
                LOG.log(System.Logger.Level.DEBUG, "somebody is exporting, or it is not ours to delete", e);
            }
        }
    }

    /** The folder. */
    public Path path() {
        return path;
    }

    /** Deletes the folder and its contents. */
    @Override
    public void close() throws IOException {
        try (lock) {
            WholeFolder.delete(path);
            Unfinished.ended(path);
        }
    }
}
