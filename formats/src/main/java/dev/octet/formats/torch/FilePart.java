package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.OpenFiles;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A stretch of a file.
 *
 * @param files reads it
 * @param from its first byte in the file
 * @param length its bytes
 */
public record FilePart(OpenFiles files, Path file, long from, long length) {
    /** All of a file. */
    public static FilePart of(OpenFiles files, Path file) throws IOException {
        return new FilePart(files, file, 0, Files.size(file));
    }

    /**
     * Some of its bytes.
     *
     * @param at counted from its first byte
     * @throws MalformedModelException when it is shorter
     * @throws IOException when it cannot be read
     */
    byte[] bytes(long at, long count) throws IOException {
        if (at < 0 || count < 0 || at > length - count || count > Integer.MAX_VALUE - 8) {
            throw new MalformedModelException(
                    "bytes " + at + " to " + (at + count) + " lie outside of the archive, which has " + length,
                    file.toString(),
                    "copy or save the file again");
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(Math.max(1, count));
            files.read(file, from + at, bytes.asSlice(0, count));
            return bytes.asSlice(0, count).toArray(ValueLayout.JAVA_BYTE);
        } catch (EOFException e) {
            throw new MalformedModelException(
                    "the file ends before byte " + (from + at + count),
                    file.toString(),
                    "copy or save the file again",
                    e);
        }
    }
}
