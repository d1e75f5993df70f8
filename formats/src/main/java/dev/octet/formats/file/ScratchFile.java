package dev.octet.formats.file;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A mapped file that holds numbers of this process only. It is open under a name for an instant: Linux and macOS unlink it right after it was created, Windows
 * deletes it with its last handle, so that a killed process leaves nothing either. It starts as zeros.
 */
public final class ScratchFile implements AutoCloseable {
    /** Size of the writes that take the file's room on the disk. */
    private static final int PIECE_BYTES = 1 << 20;

    private static final Set<StandardOpenOption> OPTIONS = Set.of(
            StandardOpenOption.CREATE_NEW,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE,
            StandardOpenOption.SPARSE,
            StandardOpenOption.DELETE_ON_CLOSE);

    private static final AtomicLong COUNT = new AtomicLong();

    private final Path folder;
    private final Path path;
    private final FileChannel channel;
    private final MemorySegment bytes;
    private boolean reserved;

    private ScratchFile(Path folder, Path path, FileChannel channel, MemorySegment bytes) {
        this.folder = folder;
        this.path = path;
        this.channel = channel;
        this.bytes = bytes;
    }

    /**
     * Creates a file that does not take room on the disk yet, see {@link #reserve}.
     *
     * @param folder exists
     * @param size at least 1
     * @param arena owns the mapping; closed before this file is
     * @throws NoSpaceException when a file may not be that large
     * @throws IOException when the folder is not writable
     */
    public static ScratchFile create(Path folder, long size, Arena arena) throws IOException {
        Path path = folder.resolve(
                ".octet-scratch-" + ProcessHandle.current().pid() + "-" + COUNT.incrementAndGet() + ".tmp");
        return Unfinished.begin(path, () -> {
            FileChannel channel = FileChannel.open(path, OPTIONS, attributes(folder));
            try {
                return new ScratchFile(
                        folder, path, channel, channel.map(FileChannel.MapMode.READ_WRITE, 0, size, arena));
            } catch (IOException e) {
                channel.close();
                throw NoSpaceException.of(path, size, e);
            }
        });
    }

    /** Only this user may open it in the instant that it has a name. */
    private static FileAttribute<?>[] attributes(Path folder) throws IOException {
        return Files.getFileStore(folder).supportsFileAttributeView(PosixFileAttributeView.class)
                ? new FileAttribute<?>[] {
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
                }
                : new FileAttribute<?>[0];
    }

    /** The file's bytes; changes reach the disk when the system writes them back, or by {@link MemorySegment#force()}. */
    public MemorySegment bytes() {
        return bytes;
    }

    /** Its folder. */
    public Path folder() {
        return folder;
    }

    /** Free bytes on its disk, as far as this user may use them. */
    public static long free(Path folder) throws IOException {
        return Files.getFileStore(folder).getUsableSpace();
    }

    /**
     * Takes the file's room on the disk by writing zeros, if that has not been done: a write to a mapping that finds the disk full would otherwise end in an
     * {@link InternalError}. To be called before the first change of {@link #bytes}.
     *
     * @throws NoSpaceException when there is not enough room
     * @throws IOException when the file cannot be written
     */
    public void reserve() throws IOException {
        if (reserved) {
            return;
        }
        ByteBuffer zeros = ByteBuffer.allocateDirect(PIECE_BYTES);
        long size = bytes.byteSize();
        try {
            for (long at = 0; at < size; ) {
                zeros.clear().limit((int) Math.min(PIECE_BYTES, size - at));
                at += channel.write(zeros, at);
            }
        } catch (IOException e) {
            throw NoSpaceException.of(path, size, e);
        }
        reserved = true;
    }

    @Override
    public void close() throws IOException {
        channel.close();
        Files.deleteIfExists(path);
        Unfinished.ended(path);
    }
}
