package dev.octet.formats.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A folder for temporary files, {@code octet-WHAT-PID-NUMBER} in the system's temporary folder. Closing deletes the folder, and so does an
 * orderly end of the process; creating the next folder deletes folders of killed processes. The process id identifies folders of living
 * processes, the lock in the folder those of other containers.
 */
public final class TemporaryFolder implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(TemporaryFolder.class.getName());
    private static final Pattern NAME = Pattern.compile("octet-[a-z]+-(\\d{1,18})-\\d+");
    private static final String LOCK = ".octet-lock";
    /** Time within which a new folder gets its lock. */
    private static final Duration BEGINNING = Duration.ofMinutes(1);

    private final Path path;
    private final FolderLock lock;

    private TemporaryFolder(Path path, FolderLock lock) {
        this.path = path;
        this.lock = lock;
    }

    /**
     * Creates an empty folder, accessible only to this user.
     *
     * @param what the purpose, in lower-case letters
     * @throws IOException when there is no space
     */
    public static TemporaryFolder create(String what) throws IOException {
        return create(what, Path.of(System.getProperty("java.io.tmpdir")));
    }

    /** The same in another folder. */
    public static TemporaryFolder create(String what, Path parent) throws IOException {
        long pid = ProcessHandle.current().pid();
        Path path = Unfinished.folder(parent, "octet-" + what + "-" + pid + "-");
        TemporaryFolder made = new TemporaryFolder(path, FolderLock.of(path, LOCK));
        try {
            sweep(parent, path);
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "folders of killed processes stay", e);
        }
        return made;
    }

    private static void sweep(Path parent, Path own) throws IOException {
        List<Path> left;
        try (Stream<Path> entries = Files.list(parent)) {
            left = entries.filter(TemporaryFolder::isOfDeadProcess).toList();
        }
        for (Path folder : left) {
            if (Files.getOwner(folder, LinkOption.NOFOLLOW_LINKS).equals(Files.getOwner(own)) && isAbandoned(folder)) {
                try (FolderLock _ = FolderLock.of(folder, LOCK)) {
                    delete(folder);
                }
            }
        }
    }

    private static boolean isOfDeadProcess(Path folder) {
        Matcher name = NAME.matcher(String.valueOf(folder.getFileName()));
        return name.matches()
                && Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
                && ProcessHandle.of(Long.parseLong(name.group(1))).isEmpty();
    }

    private static boolean isAbandoned(Path folder) throws IOException {
        FileTime changed = Files.getLastModifiedTime(folder, LinkOption.NOFOLLOW_LINKS);
        return Files.exists(folder.resolve(LOCK), LinkOption.NOFOLLOW_LINKS)
                || changed.toInstant().isBefore(Instant.now().minus(BEGINNING));
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        List<Path> all;
        try (Stream<Path> entries = Files.walk(folder)) {
            all = entries.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path entry : all) {
            Files.deleteIfExists(entry);
        }
    }

    /** The folder. */
    public Path path() {
        return path;
    }

    /**
     * Deletes the folder and its contents. Where files in use cannot be deleted (Windows), they stay until the process ends; closing may be
     * repeated.
     */
    @Override
    public void close() throws IOException {
        lock.close();
        try {
            delete(path);
            Unfinished.ended(path);
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "files are in use", e);
            try (Stream<Path> entries = Files.walk(path)) {
                entries.forEach(entry -> entry.toFile().deleteOnExit());
            }
        }
    }
}
