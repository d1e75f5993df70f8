package dev.octet.formats.file;

import java.nio.file.FileSystemException;

/** A file became shorter while it was mapped: what lay behind its new end cannot be read any more, or reads as zeros. */
public final class ShortenedFileException extends FileSystemException {
    private static final long serialVersionUID = 1;

    /**
     * Says so.
     *
     * @param file which
     * @param mapped bytes when it was mapped
     * @param left bytes now
     */
    ShortenedFileException(String file, long mapped, long left) {
        super(file, null, "the file became shorter while it was read: it had " + mapped + " bytes, now it has " + left);
    }
}
