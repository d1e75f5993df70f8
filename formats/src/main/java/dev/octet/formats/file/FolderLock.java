package dev.octet.formats.file;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.jspecify.annotations.Nullable;

/** Keeps a second process or thread from writing to the same folder. The system releases the lock when the process ends, even if killed. */
public final class FolderLock implements AutoCloseable {
    /** Message of the exception when another run holds the lock. */
    public static final String TAKEN = "another run is writing this folder";

    private final Path file;
    private final FileChannel channel;
    private final FileLock lock;

    private FolderLock(Path file, FileChannel channel, FileLock lock) {
        this.file = file;
        this.channel = channel;
        this.lock = lock;
    }

    /**
     * Locks a folder by the file {@code name} in it.
     *
     * @throws FileSystemException when another run holds the lock
     * @throws IOException when the folder is not writable
     */
    public static FolderLock of(Path folder, String name) throws IOException {
        Path file = folder.resolve(name);
        return Unfinished.begin(file, () -> take(folder, file));
    }

    /**
     * Whether a process is writing to a folder now: one that was killed holds no lock, although it left the file.
     *
     * @throws IOException when the lock cannot be looked at
     */
    public static boolean isHeld(Path folder, String name) throws IOException {
        Path file = folder.resolve(name);
        if (!Files.exists(file)) {
            return false;
        }
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
                FileLock lock = channel.tryLock(0, Long.MAX_VALUE, true)) {
            return lock == null;
        } catch (OverlappingFileLockException e) {
            return true;
        } catch (NoSuchFileException e) {
            return false; // released meanwhile
        }
    }

    private static FolderLock take(Path folder, Path file) throws IOException {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            FileLock lock = channel.tryLock();
            if (lock != null) {
                return new FolderLock(file, channel, lock);
            }
        } catch (OverlappingFileLockException e) {
            channel.close();
            throw taken(folder, e);
        }
        channel.close();
        throw taken(folder, null);
    }

    private static FileSystemException taken(Path folder, @Nullable Exception cause) {
        FileSystemException taken = new FileSystemException(folder.toString(), null, TAKEN);
        taken.initCause(cause);
        return taken;
    }

    /** Releases the lock and removes its file. */
    @Override
    public void close() throws IOException {
        Files.deleteIfExists(file);
        lock.release();
        channel.close();
        Unfinished.ended(file);
    }
}
