package dev.octet.formats.file;

import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Reads from any number of files with few of them open: closes the least recently read file when it opens another. Thread-safe; files stay
 * open while they are read, so the limit may be exceeded by the number of threads.
 */
public final class OpenFiles implements AutoCloseable {
    /** Far below the usual limits (256 on macOS, 1024 on Linux), and enough to keep files open that are read in turns. */
    static final int MAX_IDLE = 32;

    private static final long READ_BYTES = 1L << 30;

    /** In the order of reading, least recent first. */
    private final Map<Path, Held> open = new LinkedHashMap<>(16, 0.75f, true);

    /** Starts without open files. */
    public OpenFiles() {}

    private static final class Held {
        private final FileChannel channel;
        private int readers;

        Held(FileChannel channel) {
            this.channel = channel;
        }
    }

    /**
     * Reads {@code into.byteSize()} bytes at {@code position}.
     *
     * @param into native memory
     * @throws EOFException when the file ends too early
     * @throws IOException when the file is missing or cannot be read
     */
    public void read(Path file, long position, MemorySegment into) throws IOException {
        Held held = take(file);
        try {
            for (long done = 0; done < into.byteSize(); ) {
                ByteBuffer buffer = into.asSlice(done, Math.min(READ_BYTES, into.byteSize() - done))
                        .asByteBuffer();
                int count = held.channel.read(buffer, position + done);
                if (count < 0) {
                    throw new EOFException(file + " became shorter while it was read");
                }
                done += count;
            }
        } finally {
            giveBack(held);
        }
    }

    private synchronized Held take(Path file) throws IOException {
        Held held = open.get(file);
        if (held == null || !held.channel.isOpen()) {
            closeIdle(MAX_IDLE - 1);
            held = new Held(FileChannel.open(file, StandardOpenOption.READ));
            open.put(file, held);
        }
        held.readers++;
        return held;
    }

    private synchronized void giveBack(Held held) {
        held.readers--;
    }

    private void closeIdle(int left) throws IOException {
        Iterator<Held> oldest = open.values().iterator();
        while (open.size() > left && oldest.hasNext()) {
            Held held = oldest.next();
            if (held.readers == 0) {
                held.channel.close();
                oldest.remove();
            }
        }
    }

    /** Number of open files. */
    synchronized int count() {
        return open.size();
    }

    /** Closes all files; a later read opens its file again. */
    @Override
    public synchronized void close() throws IOException {
        for (Held held : open.values()) {
            held.channel.close();
        }
        open.clear();
    }
}
