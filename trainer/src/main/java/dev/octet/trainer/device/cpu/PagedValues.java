package dev.octet.trainer.device.cpu;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.file.ScratchFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Lasting values in mapped files: in memory while a step uses them, and no longer. A thread writes back what steps are done with, while the next ones compute; it is
 * at most {@link #BEHIND} values behind.
 */
final class PagedValues implements AutoCloseable {
    /** Values begin at multiples of it: no page of any common size holds two of them. */
    private static final long ALIGNMENT = 64 << 10;

    /** Values that wait for being written back; the next one is written by whoever computes. */
    private static final int BEHIND = 2;

    private final Path folder;
    private final Arena arena = Arena.ofShared();
    private final List<ScratchFile> files = new ArrayList<>();
    private final List<ScratchFile> unreserved = new ArrayList<>();
    private final AtomicReference<@Nullable RuntimeException> failure = new AtomicReference<>();
    private final ThreadPoolExecutor writer = new ThreadPoolExecutor(
            1,
            1,
            1,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(BEHIND),
            Thread.ofPlatform().daemon().name("octet-pages").factory(),
            new ThreadPoolExecutor.CallerRunsPolicy());

    private long allocated;

    /**
     * @throws InvalidOptionException when the folder cannot be used
     */
    PagedValues(Path folder) {
        this.folder = folder;
        writer.allowCoreThreadTimeOut(true);
        String trouble = trouble(folder);
        if (!trouble.isEmpty()) {
            throw new InvalidOptionException(
                    "offload.path " + trouble, folder.toString(), "give an existing folder on a fast local disk");
        }
    }

    private static String trouble(Path folder) {
        if (!Files.isDirectory(folder)) {
            return Files.exists(folder) ? "is not a folder" : "does not exist";
        }
        if (!Files.isWritable(folder)) {
            return "is not writable";
        }
        try {
            String type = Files.getFileStore(folder).type().toLowerCase(Locale.ROOT);
            return type.equals("tmpfs") || type.equals("ramfs")
                    ? "lies in memory itself, as a file system of type " + type
                    : "";
        } catch (IOException e) {
            return "cannot be used: " + e.getMessage();
        }
    }

    /** Room of a value in a file. */
    static long aligned(long bytes) {
        return Math.ceilDiv(Math.max(1, bytes), ALIGNMENT) * ALIGNMENT;
    }

    /**
     * Zeroed memory in one file.
     *
     * @param sizes of values, in bytes
     * @throws UnavailableException when the disk has no room for what was asked for so far
     */
    List<MemorySegment> allocate(List<Long> sizes) {
        long bytes = sizes.stream().mapToLong(PagedValues::aligned).sum();
        long needed =
                bytes + unreserved.stream().mapToLong(f -> f.bytes().byteSize()).sum();
        try {
            long free = ScratchFile.free(folder);
            if (free < needed) {
                throw full(needed, free, null);
            }
            ScratchFile file = ScratchFile.create(folder, bytes, arena);
            files.add(file);
            unreserved.add(file);
            allocated += sizes.stream().mapToLong(Long::longValue).sum();
            return cut(file.bytes(), sizes);
        } catch (NoSpaceException e) {
            throw full(e.needed(), e.free(), e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<MemorySegment> cut(MemorySegment all, List<Long> sizes) {
        List<MemorySegment> parts = new ArrayList<>();
        long at = 0;
        for (long size : sizes) {
            parts.add(all.asSlice(at, size));
            at += aligned(size);
        }
        return parts;
    }

    private UnavailableException full(long needed, long free, @Nullable IOException cause) {
        boolean limited = free >= needed; // by a quota, or a limit of the size of files
        return new UnavailableException(
                "the disk for offloaded values has too little room: they take " + mib(needed) + ", "
                        + (limited ? "more than this user or process may use" : mib(free) + " are free"),
                "offload.path " + folder,
                (limited ? "raise the quota or limit (ulimit -f)" : "free " + mib(needed - free) + " there")
                        + ", or give another path",
                cause);
    }

    private static String mib(long bytes) {
        return Math.ceilDiv(bytes, 1L << 20) + " MiB";
    }

    /** Room for what waits for its value; its file goes with the last reference to it. */
    MemorySegment aside(long bytes) {
        try {
            ScratchFile file = ScratchFile.create(folder, Math.max(1, bytes), Arena.ofAuto());
            file.reserve();
            MemorySegment room = file.bytes();
            file.close(); // the mapping holds it
            return room.asSlice(0, bytes);
        } catch (NoSpaceException e) {
            throw full(e.needed(), e.free(), e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Makes sure that values can be changed.
     *
     * @throws UnavailableException when the disk has become full
     */
    void reserve() {
        while (!unreserved.isEmpty()) {
            ScratchFile file = unreserved.getFirst();
            try {
                file.reserve();
            } catch (NoSpaceException e) {
                throw full(e.needed(), e.free(), e);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            Paging.drop(file.bytes());
            unreserved.removeFirst();
        }
    }

    /** Bytes of all values. */
    long allocated() {
        return allocated;
    }

    /** Has a value read before a step uses it. */
    void ahead(MemorySegment value) {
        Paging.ahead(value);
    }

    /** A step is done with a value: it is written back, behind the work that goes on. */
    void done(MemorySegment value) {
        RuntimeException failed = failure.getAndSet(null);
        if (failed != null) {
            throw failed;
        }
        writer.execute(() -> {
            try {
                Paging.drop(value);
            } catch (RuntimeException e) { // the disk failed: told to whoever computes
                failure.set(e);
            }
        });
    }

    @Override
    public void close() {
        writer.shutdown();
        boolean interrupted = false;
        while (true) {
            try {
                if (writer.awaitTermination(1, TimeUnit.MINUTES)) {
                    break;
                }
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        arena.close();
        for (ScratchFile file : files) {
            try {
                file.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
