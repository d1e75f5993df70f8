package dev.octet.formats.file;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.WritableByteChannel;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file that is written under a temporary name in the same folder; {@link #commit()} syncs it to disk and renames it to the final name.
 * Closing without a commit removes the temporary file, so a failure leaves an earlier file unchanged.
 */
public final class AtomicFile implements WritableByteChannel, ByteSink {
    private static final long HEAP_CHUNK_BYTES = 1 << 20;
    private static final long NATIVE_CHUNK_BYTES = 1 << 30;

    private static final System.Logger LOG = System.getLogger(AtomicFile.class.getName());

    /** Number of files begun by this process. */
    private static final AtomicLong COUNT = new AtomicLong();

    private final Path target;
    private final Path temporary;
    private final FileChannel channel;
    private long expected;
    private boolean committed;

    private AtomicFile(Path target, Path temporary, FileChannel channel) {
        this.target = target;
        this.temporary = temporary;
        this.channel = channel;
    }

    /**
     * Starts writing the future {@code target}. The temporary file lies in the same folder, because a rename across file systems is not
     * atomic, and is named {@code .<name>.<pid>-<count>.tmp}, unique to the writer. It is locked during writing. Temporary files of dead
     * processes for the same target are removed.
     *
     * @throws IOException when the folder does not exist or is not writable
     */
    public static AtomicFile create(Path target) throws IOException {
        Path absolute = target.toAbsolutePath();
        Path name = absolute.getFileName();
        Path parent = absolute.getParent();
        if (name == null || parent == null || Files.isDirectory(absolute)) {
            throw new FileAlreadyExistsException(target.toString(), null, "is a directory");
        }
        Path temporary = parent.resolve(
                "." + name + "." + ProcessHandle.current().pid() + "-" + COUNT.incrementAndGet() + ".tmp");
        return Unfinished.begin(temporary, () -> {
            // Left by a killed process with our process id; creating a new file also refuses to follow a planted link.
            Files.deleteIfExists(temporary);
            FileChannel channel = FileChannel.open(
                    temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
            try {
                channel.tryLock(); // released with the channel, even if the process is killed
                sweep(parent, name.toString());
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "this disk has no locks, or what others left cannot be removed", e);
            }
            return new AtomicFile(absolute, temporary, channel);
        });
    }

    private static void sweep(Path folder, String name) throws IOException {
        Pattern pattern = Pattern.compile("\\." + Pattern.quote(name) + "\\.(\\d{1,18})-\\d+\\.tmp");
        List<Path> left = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (Path entry : entries) {
                Matcher m = pattern.matcher(String.valueOf(entry.getFileName()));
                // the file of a living process is not opened: if it were ours, closing it would lose its lock
                if (m.matches() && ProcessHandle.of(Long.parseLong(m.group(1))).isEmpty()) {
                    left.add(entry);
                }
            }
        }
        for (Path file : left) {
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
                    FileLock lock = channel.tryLock()) {
                if (lock != null) { // else a process in another container has that id
                    Files.delete(file);
                }
            }
        }
    }

    /** Sets the expected size of the file, for messages. */
    public void expect(long bytes) {
        expected = bytes;
    }

    /** Writes all of {@code source}, unlike a bare channel. */
    @Override
    public int write(ByteBuffer source) throws IOException {
        int n = source.remaining();
        try {
            while (source.hasRemaining()) {
                channel.write(source);
            }
        } catch (IOException e) {
            throw named(e, source.remaining());
        }
        return n;
    }

    private IOException named(IOException e, long left) throws IOException {
        return NoSpaceException.of(target, Math.max(expected, channel.size() + left), e);
    }

    /** Writes all of {@code bytes}, of any size. */
    @Override
    public void write(MemorySegment bytes) throws IOException {
        // A heap segment is copied into a direct buffer of the size of each write, which the JDK keeps per thread.
        long chunkBytes = bytes.heapBase().isPresent() ? HEAP_CHUNK_BYTES : NATIVE_CHUNK_BYTES;
        for (long from = 0; from < bytes.byteSize(); from += chunkBytes) {
            write(bytes.asSlice(from, Math.min(chunkBytes, bytes.byteSize() - from))
                    .asByteBuffer());
        }
    }

    /** Writes several pieces in sequence, with as few system calls as possible. */
    public void write(List<MemorySegment> pieces) throws IOException {
        List<ByteBuffer> buffers = new ArrayList<>();
        for (MemorySegment piece : pieces) {
            if (piece.heapBase().isPresent()) { // the JDK would copy all of it into one direct buffer
                writeAll(buffers);
                write(piece);
                continue;
            }
            for (long from = 0; from < piece.byteSize(); from += NATIVE_CHUNK_BYTES) {
                buffers.add(piece.asSlice(from, Math.min(NATIVE_CHUNK_BYTES, piece.byteSize() - from))
                        .asByteBuffer());
            }
        }
        writeAll(buffers);
    }

    private void writeAll(List<ByteBuffer> buffers) throws IOException {
        ByteBuffer[] all = buffers.toArray(ByteBuffer[]::new);
        int first = 0;
        try {
            while (first < all.length) {
                channel.write(all, first, all.length - first);
                while (first < all.length && !all[first].hasRemaining()) {
                    first++;
                }
            }
        } catch (IOException e) {
            throw named(e, Arrays.stream(all).mapToLong(ByteBuffer::remaining).sum());
        }
        buffers.clear();
    }

    /**
     * Writes all of {@code bytes} (native memory) at {@code position}, of which {@link #position()} knows nothing. Several threads may write at once, to
     * different positions.
     */
    public void write(long position, MemorySegment bytes) throws IOException {
        try {
            for (long done = 0; done < bytes.byteSize(); ) {
                ByteBuffer buffer = bytes.asSlice(done, Math.min(NATIVE_CHUNK_BYTES, bytes.byteSize() - done))
                        .asByteBuffer();
                done += channel.write(buffer, position + done);
            }
        } catch (IOException e) {
            throw named(e, bytes.byteSize());
        }
    }

    /** Syncs the bytes written so far to disk. Another thread may write meanwhile. */
    public void sync() throws IOException {
        channel.force(false);
    }

    /** Bytes written so far. */
    public long position() throws IOException {
        return channel.position();
    }

    @Override
    public boolean isOpen() {
        return channel.isOpen();
    }

    /** Makes the file durable and visible under its final name. */
    public void commit() throws IOException {
        try {
            channel.force(true);
        } catch (IOException e) {
            throw named(e, 0);
        }
        channel.close();
        try {
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (AtomicMoveNotSupportedException e) {
            Files.move(temporary, target, StandardCopyOption.REPLACE_EXISTING);
        }
        committed = true;
    }

    /** Removes the temporary file unless {@link #commit()} succeeded. */
    @Override
    public void close() throws IOException {
        channel.close();
        if (!committed) {
            Files.deleteIfExists(temporary);
        }
        Unfinished.ended(temporary);
    }
}
