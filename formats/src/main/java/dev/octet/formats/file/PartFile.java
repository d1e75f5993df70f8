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
 * A file written by several threads at positions of their choice, under the hidden name {@code .<name>.part} until {@link #publish} renames
 * it. The hidden name is always the same, so what a killed process left is overwritten by the next one and never accumulates; callers make
 * sure that one process writes a folder at a time ({@link FolderLock}).
 *
 * <p>Unlike {@link AtomicFile} it is not synced to disk: a killed process loses nothing, as the system holds the pages; a crash of the
 * machine may.
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
     * Starts a file; what lies under its hidden name is deleted.
     *
     * @param bytes what it will have
     * @throws IOException when the folder does not exist or is not writable
     */
    public static PartFile create(Path target, long bytes) throws IOException {
        Path part = partOf(target);
        return Unfinished.begin(part, () -> {
            Files.deleteIfExists(part);
            // creating anew refuses to follow a planted link
            FileChannel channel = FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
            return new PartFile(target, part, channel, bytes);
        });
    }

    /**
     * Writes all of {@code from} (native memory) at {@code position}. Several threads may write at once, to different places.
     *
     * @throws NoSpaceException when there is no space
     * @throws IOException when it cannot be written
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
     * Gives the file its final name, in one step; what was there before is replaced.
     *
     * @throws IOException when the rename fails
     * @throws IllegalStateException when the file has another size than foreseen: something was not written
     */
    public void publish() throws IOException {
        if (channel.size() != bytes) {
            throw new IllegalStateException(part + " has " + channel.size() + " bytes, not " + bytes);
        }
        channel.close();
        Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        published = true;
    }

    /** Deletes what was written unless it was published. */
    @Override
    public void close() throws IOException {
        channel.close();
        if (!published) {
            Files.deleteIfExists(part);
        }
        Unfinished.ended(part);
    }
}
