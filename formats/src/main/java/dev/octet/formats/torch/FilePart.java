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
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A stretch of a file. It keeps its first and last bytes once it has read them: an archive of one tensor has all but the tensor there, and a checkpoint has thousands. Not
 * safe for several threads.
 */
public final class FilePart {
    /** Bytes kept at each end: more than torch writes around a tensor. */
    private static final int END_BYTES = 2048;

    private final @Nullable OpenFiles files;
    private final Path file;
    private final long from;
    private final long length;
    private final @Nullable FilePart whole;
    private final byte @Nullable [] content;
    private byte @Nullable [] head;
    private byte @Nullable [] tail;

    private FilePart(
            @Nullable OpenFiles files,
            Path file,
            long from,
            long length,
            @Nullable FilePart whole,
            byte @Nullable [] content) {
        this.files = files;
        this.file = file;
        this.from = from;
        this.length = length;
        this.whole = whole;
        this.content = content;
    }

    /**
     * A stretch of a file.
     *
     * @param files reads it
     * @param from its first byte in the file
     * @param length its bytes
     */
    public FilePart(OpenFiles files, Path file, long from, long length) {
        this(files, file, from, length, null, null);
    }

    /** All of a file. */
    public static FilePart of(OpenFiles files, Path file) throws IOException {
        return new FilePart(files, file, 0, Files.size(file));
    }

    /**
     * Bytes in memory, read as if they were a file.
     *
     * @param file that they come from, for messages
     */
    static FilePart of(byte[] content, Path file) {
        return new FilePart(null, file, 0, content.length, null, content);
    }

    /** A stretch of this one; the caller has checked that it lies in it. */
    FilePart part(long at, long count) {
        return new FilePart(files, file, from + at, count, whole == null ? this : whole, null);
    }

    /** The file. */
    public Path file() {
        return file;
    }

    /** Its first byte in the file. */
    public long from() {
        return from;
    }

    /** Its bytes. */
    public long length() {
        return length;
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
        if (whole != null) {
            return whole.bytes(from - whole.from + at, count);
        }
        if (content != null) {
            return Arrays.copyOfRange(content, (int) at, (int) (at + count));
        }
        if (at + count <= END_BYTES) {
            if (head == null) {
                head = read(0, Math.min(length, END_BYTES));
            }
            return Arrays.copyOfRange(head, (int) at, (int) (at + count));
        }
        long start = Math.max(0, length - END_BYTES);
        if (at >= start) {
            if (tail == null) {
                tail = read(start, length - start);
            }
            return Arrays.copyOfRange(tail, (int) (at - start), (int) (at - start + count));
        }
        return read(at, count);
    }

    private byte[] read(long at, long count) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(Math.max(1, count));
            Objects.requireNonNull(files).read(file, from + at, bytes.asSlice(0, count));
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
