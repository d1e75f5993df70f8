package dev.octet.spark.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import org.apache.hadoop.fs.FSDataInputStream;

/**
 * A file of Hadoop, read by position by any number of threads. A mapping is a copy of the bytes in memory, since there are no pages to map;
 * what reads large files reads them by position.
 */
final class HadoopChannel extends FileChannel {
    /** Through an array: not every file system fills memory outside the heap. */
    private static final int CHUNK_BYTES = 1 << 20;

    private final FSDataInputStream in;
    private final long size;
    private long position;

    HadoopChannel(FSDataInputStream in, long size) {
        this.in = in;
        this.size = size;
    }

    @Override
    public int read(ByteBuffer into, long from) throws IOException {
        if (from >= size) {
            return -1;
        }
        int wanted = (int) Math.min(into.remaining(), size - from);
        byte[] chunk = new byte[Math.min(wanted, CHUNK_BYTES)];
        int done = 0;
        while (done < wanted) {
            int count = in.read(from + done, chunk, 0, Math.min(chunk.length, wanted - done));
            if (count < 0) {
                break;
            }
            into.put(chunk, 0, count);
            done += count;
        }
        return done == 0 && wanted > 0 ? -1 : done;
    }

    @Override
    public synchronized int read(ByteBuffer into) throws IOException {
        int count = read(into, position);
        position += Math.max(count, 0);
        return count;
    }

    @Override
    public synchronized long read(ByteBuffer[] into, int offset, int length) throws IOException {
        long total = 0;
        for (int i = offset; i < offset + length; i++) {
            int count = into[i].hasRemaining() ? read(into[i]) : 0;
            if (count < 0) {
                return total == 0 ? -1 : total;
            }
            total += count;
        }
        return total;
    }

    @Override
    public synchronized long position() {
        return position;
    }

    @Override
    public synchronized FileChannel position(long newPosition) {
        position = newPosition;
        return this;
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public MemorySegment map(MapMode mode, long from, long count, Arena arena) throws IOException {
        if (!mode.equals(MapMode.READ_ONLY)) {
            throw new NonWritableChannelException();
        }
        MemorySegment bytes = arena.allocate(Math.max(count, 1), 64).asSlice(0, count);
        for (long done = 0; done < count; ) {
            int got = read(
                    bytes.asSlice(done, Math.min(CHUNK_BYTES, count - done)).asByteBuffer(), from + done);
            if (got < 0) {
                throw new EOFException("the file became shorter while it was read");
            }
            done += got;
        }
        return bytes.asReadOnly();
    }

    @Override
    public MappedByteBuffer map(MapMode mode, long from, long count) {
        throw new UnsupportedOperationException("mapping a file of Hadoop into a buffer");
    }

    @Override
    public long transferTo(long from, long count, WritableByteChannel target) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(CHUNK_BYTES);
        long done = 0;
        while (done < count) {
            buffer.clear().limit((int) Math.min(CHUNK_BYTES, count - done));
            int got = read(buffer, from + done);
            if (got < 0) {
                break;
            }
            buffer.flip();
            while (buffer.hasRemaining()) {
                target.write(buffer);
            }
            done += got;
        }
        return done;
    }

    @Override
    public int write(ByteBuffer source) {
        throw new NonWritableChannelException();
    }

    @Override
    public long write(ByteBuffer[] sources, int offset, int length) {
        throw new NonWritableChannelException();
    }

    @Override
    public int write(ByteBuffer source, long to) {
        throw new NonWritableChannelException();
    }

    @Override
    public long transferFrom(ReadableByteChannel source, long to, long count) {
        throw new NonWritableChannelException();
    }

    @Override
    public FileChannel truncate(long newSize) {
        throw new NonWritableChannelException();
    }

    @Override
    public void force(boolean metaData) {
        // nothing is written
    }

    @Override
    public FileLock lock(long from, long count, boolean shared) {
        throw new UnsupportedOperationException("locks in a file system of Hadoop");
    }

    @Override
    public FileLock tryLock(long from, long count, boolean shared) {
        throw new UnsupportedOperationException("locks in a file system of Hadoop");
    }

    @Override
    protected void implCloseChannel() throws IOException {
        in.close();
    }
}
