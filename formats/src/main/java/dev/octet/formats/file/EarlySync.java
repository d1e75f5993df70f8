package dev.octet.formats.file;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/**
 * Syncs a file to disk by a thread of its own while others write it, so that little is left to sync at the end. May be used by several threads.
 */
public final class EarlySync implements AutoCloseable {
    private final AtomicFile file;
    private final long each;
    private @Nullable ExecutorService second;
    private Future<?> syncing = CompletableFuture.completedFuture(null);
    private long pending;

    /** @param each bytes after which a sync starts, where none is at work */
    public EarlySync(AtomicFile file, long each) {
        this.file = file;
        this.each = each;
    }

    /**
     * Tells of bytes that were written.
     *
     * @throws IOException when an earlier sync failed
     */
    public synchronized void wrote(long bytes) throws IOException {
        pending += bytes;
        if (pending < each || !syncing.isDone()) {
            return;
        }
        finish();
        pending = 0;
        if (second == null) {
            second = Executors.newSingleThreadExecutor();
        }
        syncing = second.submit(() -> {
            file.sync();
            return null;
        });
    }

    /**
     * Waits for a sync at work. The system reports a failed sync only once, so its failure must not be lost.
     *
     * @throws IOException when it failed
     */
    public synchronized void finish() throws IOException {
        try {
            syncing.get();
        } catch (ExecutionException e) {
            throw new IOException("cannot sync: " + e.getCause(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while the file was written");
        }
    }

    /** Ends the thread; before the file is closed. */
    @Override
    public synchronized void close() {
        if (second != null) {
            second.close();
        }
    }
}
