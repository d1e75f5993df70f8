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
 * A file being written under a sibling temporary name; {@link #commit()} syncs it to disk and renames it over the final name.
 * Closing without a commit removes the temporary file, so a failure leaves what was there before.
 */
public final class AtomicFile implements WritableByteChannel, ByteSink {
    private static final long HEAP_CHUNK_BYTES = 1 << 20;
    private static final long NATIVE_CHUNK_BYTES = 1 << 30;

    private static final System.Logger LOG = System.getLogger(AtomicFile.class.getName());

    /** Files begun by this process. */
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
     * Starts writing what will become {@code target}. The temporary file lies in the same folder (a rename across file systems is
     * not atomic) and is named {@code .<name>.<pid>-<count>.tmp}, so that no two writers share one. It is locked while it is written; those of
     * dead processes that wrote the same target are removed.
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
            // Left behind by a killed process that had our number; creating anew also refuses to follow a planted link.
            Files.deleteIfExists(temporary);
            FileChannel channel = FileChannel.open(
                    temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
            try {
                channel.tryLock(); // released with the channel, however the process ends
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
                // one of a living process is not even opened: its lock would be lost if that was ours
                if (m.matches() && ProcessHandle.of(Long.parseLong(m.group(1))).isEmpty()) {
                    left.add(entry);
                }
            }
        }
        for (Path file : left) {
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
                    FileLock lock = channel.tryLock()) {
                if (lock != null) { // else a process of another container has that number
                    Files.delete(file);
                }
            }
        }
    }

    /** Says how many bytes the file will have, for messages. */
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

    /** Writes all of {@code bytes}, however many gigabytes. */
    @Override
    public void write(MemorySegment bytes) throws IOException {
        // A heap segment is copied into a direct buffer of the size of each write, which the JDK keeps per thread.
        long chunkBytes = bytes.heapBase().isPresent() ? HEAP_CHUNK_BYTES : NATIVE_CHUNK_BYTES;
        for (long from = 0; from < bytes.byteSize(); from += chunkBytes) {
            write(bytes.asSlice(from, Math.min(chunkBytes, bytes.byteSize() - from))
                    .asByteBuffer());
        }
    }

    /** Writes all of several pieces, one behind the other, in as few calls of the system as it takes. */
    public void write(List<MemorySegment> pieces) throws IOException {
        List<ByteBuffer> buffers = new ArrayList<>();
        for (MemorySegment piece : pieces) {
            if (piece.heapBase().isPresent()) { // would be copied whole into one direct buffer
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

    /** Brings to the disk what was written so far. Another thread may write meanwhile. */
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
