package dev.octet.formats.file;

import java.io.IOException;
import java.io.Serial;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A file does not fit on its disk. The system itself says neither which file nor how large it was to be. */
public final class NoSpaceException extends FileSystemException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What systems say of a full disk, a quota, a limit on the size of files. */
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
     * A failure to write, with the name of the file where the system left it out.
     *
     * @param file as the user knows it
     * @param needed bytes that it was to have, or has at the least
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
            return 0; // the folder itself is gone
        }
    }

    /** Bytes that the file was to have, or at the least. */
    public long needed() {
        return needed;
    }

    /** Bytes that were free on its disk when it failed. */
    public long free() {
        return free;
    }
}
