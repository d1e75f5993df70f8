package dev.octet.formats.file;

import java.nio.file.FileSystemException;

/** A file became shorter while it was mapped: bytes after its new end cannot be read, or read as zeros. */
public final class ShortenedFileException extends FileSystemException {
    private static final long serialVersionUID = 1;

    /**
     * Describes the change.
     *
     * @param file the file
     * @param mapped size in bytes at the mapping
     * @param left size in bytes now
     */
    ShortenedFileException(String file, long mapped, long left) {
        super(file, null, "the file became shorter while it was read: it had " + mapped + " bytes, now it has " + left);
    }
}
