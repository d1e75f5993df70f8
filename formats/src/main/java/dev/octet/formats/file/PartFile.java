package dev.octet.formats.file;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * A file that several threads write at arbitrary positions, under the hidden name {@code .<name>.part} until {@link #publish} renames it.
 * The hidden name is fixed, so the next process overwrites the file of a killed one, and files never accumulate; callers ensure by {@link
 * FolderLock} that only one process writes to a folder.
 *
 * <p>Unlike {@link AtomicFile}, it is not synced to disk: a killed process loses nothing, because the system keeps the pages, but a crash
 * of the machine may.
 */
public final class PartFile implements AutoCloseable {
    private static final long WRITE_BYTES = 1L << 30;

    private final Path target;
    private final Path part;
    private final FileChannel channel;
    private final long bytes;
    private boolean published;

    private PartFile(Path target, Path part, FileChannel channel, long bytes) {
        this.target = target;
        this.part = part;
        this.channel = channel;
        this.bytes = bytes;
    }

    /** The hidden name under which {@code target} is written. */
    public static Path partOf(Path target) {
        return target.resolveSibling("." + target.getFileName() + ".part");
    }

    /**
     * Starts a file; deletes an existing file with the hidden name.
     *
     * @param bytes size of the file
     * @throws IOException when the folder does not exist or is not writable
     */
    public static PartFile create(Path target, long bytes) throws IOException {
        Path part = partOf(target);
        return Unfinished.begin(part, () -> {
            Files.deleteIfExists(part);
            // creating a new file refuses to follow a planted link
            FileChannel channel = FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
            return new PartFile(target, part, channel, bytes);
        });
    }

    /**
     * Writes all of {@code from} (native memory) at {@code position}. Several threads may write at once, to different positions.
     *
     * @throws NoSpaceException when there is no space
     * @throws IOException when writing fails
     */
    public void write(long position, MemorySegment from) throws IOException {
        try {
            for (long done = 0; done < from.byteSize(); ) {
                ByteBuffer buffer = from.asSlice(done, Math.min(WRITE_BYTES, from.byteSize() - done))
                        .asByteBuffer();
                done += channel.write(buffer, position + done);
            }
        } catch (IOException e) {
            throw NoSpaceException.of(target, bytes, e);
        }
    }

    /**
     * Renames the file to its final name atomically; replaces an earlier file.
     *
     * @throws IOException when the rename fails
     * @throws IllegalStateException when the size differs from the expected size, because something was not written
     */
    public void publish() throws IOException {
        publishAs(bytes);
    }

    /**
     * The same of a file whose size was not known at its start.
     *
     * @param written its size
     */
    public void publishAs(long written) throws IOException {
        if (channel.size() != written) {
            throw new IllegalStateException(part + " has " + channel.size() + " bytes, not " + written);
        }
        channel.close();
        Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        published = true;
    }

    /** Deletes the file unless it was published. */
    @Override
    public void close() throws IOException {
        channel.close();
        if (!published) {
            Files.deleteIfExists(part);
        }
        Unfinished.ended(part);
    }
}
