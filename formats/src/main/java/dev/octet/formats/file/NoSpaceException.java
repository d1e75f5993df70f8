package dev.octet.formats.file;

import java.io.IOException;
import java.io.Serial;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A file does not fit on its disk. Names the file and its size, which the system's own error omits. */
public final class NoSpaceException extends FileSystemException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** The systems' messages for a full disk, a quota, a limit of the file size. */
    private static final List<String> FULL = List.of(
            "No space left on device",
            "Disk quota exceeded",
            "File too large",
            "There is not enough space on the disk");

    private final long needed;
    private final long free;

    private NoSpaceException(Path file, long needed, long free, IOException cause) {
        super(file.toString(), null, cause.getMessage());
        initCause(cause);
        this.needed = needed;
        this.free = free;
    }

    /**
     * Turns a failure to write into one that names the file.
     *
     * @param file the user's name of the file
     * @param needed expected size in bytes, or a lower bound
     */
    public static FileSystemException of(Path file, long needed, IOException e) {
        if (e instanceof NoSpaceException full) {
            return new NoSpaceException(file, full.needed, full.free, full);
        }
        if (e instanceof FileSystemException named && named.getFile() != null) {
            return named;
        }
        if (e.getMessage() != null && FULL.stream().anyMatch(e.getMessage()::contains)) {
            return new NoSpaceException(file, needed, free(file), e);
        }
        FileSystemException named = new FileSystemException(file.toString(), null, e.getMessage());
        named.initCause(e);
        return named;
    }

    private static long free(Path file) {
        try {
            Path folder = file.toAbsolutePath().getParent();
            return folder == null ? 0 : Files.getFileStore(folder).getUsableSpace();
        } catch (IOException e) {
            return 0; // the folder does not exist any more
        }
    }

    /** Expected size of the file in bytes, or a lower bound. */
    public long needed() {
        return needed;
    }

    /** Free bytes on the disk at the failure. */
    public long free() {
        return free;
    }
}
