package dev.octet.bench;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.model.Shard;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Reads all tensors of a checkpoint in any format, opening included, beside all bytes of its files, in turn. {@code THREADS CHUNK_MIB ROUNDS CHECKPOINT...}: both in
 * chunks, by position, into one native buffer for each thread; nothing is computed. Prints a line for each checkpoint: medians and their ratio.
 */
public final class TensorReads {
    private static final int MIB = 1 << 20;

    private TensorReads() {}

    private interface Read {
        void into(MemorySegment buffer) throws IOException;
    }

    /** Runs {@code args[2]} rounds after one that is not counted. */
    public static void main(String[] args) throws IOException, InterruptedException, ExecutionException {
        if (args.length < 4) {
            throw new IllegalArgumentException("usage: THREADS CHUNK_MIB ROUNDS CHECKPOINT...");
        }
        int threads = Integer.parseInt(args[0]);
        int chunk = Math.multiplyExact(Integer.parseInt(args[1]), MIB);
        int rounds = Integer.parseInt(args[2]);
        for (String name : List.of(args).subList(3, args.length)) {
            Path path = Path.of(name);
            List<Double> files = new ArrayList<>();
            List<Double> tensors = new ArrayList<>();
            long fileBytes = 0;
            long tensorBytes = 0;
            Set<Path> paths = files(path);
            List<Double> openings = new ArrayList<>();
            for (int round = 0; round <= rounds; round++) {
                long start = System.nanoTime();
                fileBytes = ofFiles(paths, threads, chunk);
                long between = System.nanoTime();
                tensorBytes = ofTensors(path, threads, chunk);
                long end = System.nanoTime();
                try (Checkpoint _ = Checkpoint.open(path)) {
                    openings.add((System.nanoTime() - end) / 1e9);
                }
                if (round > 0) {
                    files.add((between - start) / 1e9);
                    tensors.add((end - between) / 1e9);
                }
            }
            double plain = fileBytes / median(files) / 1e9;
            double read = tensorBytes / median(tensors) / 1e9;
            System.out.printf(
                    Locale.ROOT,
                    "%s: %.2f GB of tensors at %.2f GB/s (%.0f ms of it to open), %.2f GB of files at %.2f GB/s,"
                            + " ratio %.2f%n",
                    path.getFileName(),
                    tensorBytes / 1e9,
                    read,
                    1000 * median(openings),
                    fileBytes / 1e9,
                    plain,
                    read / plain);
        }
    }

    private static double median(List<Double> seconds) {
        return seconds.stream().sorted().toList().get(seconds.size() / 2);
    }

    private static Set<Path> files(Path path) throws IOException {
        Set<Path> files = new TreeSet<>();
        try (Checkpoint checkpoint = Checkpoint.open(path)) {
            checkpoint.shards().stream().map(Shard::files).forEach(files::addAll);
        }
        return files;
    }

    private static long ofFiles(Set<Path> paths, int threads, int chunk)
            throws IOException, InterruptedException, ExecutionException {
        List<FileChannel> open = new ArrayList<>();
        List<Read> reads = new ArrayList<>();
        long bytes = 0;
        try {
            for (Path file : paths) {
                FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
                open.add(channel);
                long size = Files.size(file);
                bytes += size;
                for (long from = 0; from < size; from += chunk) {
                    long at = from;
                    int length = (int) Math.min(chunk, size - from);
                    reads.add(buffer -> {
                        ByteBuffer into = buffer.asSlice(0, length).asByteBuffer();
                        while (into.hasRemaining()) {
                            if (channel.read(into, at + into.position()) < 0) {
                                throw new EOFException(file.toString());
                            }
                        }
                    });
                }
            }
            run(threads, chunk, reads);
        } finally {
            for (FileChannel channel : open) {
                channel.close();
            }
        }
        return bytes;
    }

    private static long ofTensors(Path path, int threads, int chunk)
            throws IOException, InterruptedException, ExecutionException {
        long bytes = 0;
        try (Checkpoint checkpoint = Checkpoint.open(path)) {
            List<Read> reads = new ArrayList<>();
            for (StoredTensor tensor : checkpoint.tensors().values()) {
                long size = tensor.spec().byteSize();
                bytes += size;
                for (long from = 0; from < size; from += chunk) {
                    long at = from;
                    long length = Math.min(chunk, size - from);
                    reads.add(buffer -> checkpoint.read(tensor, at, buffer.asSlice(0, length)));
                }
            }
            run(threads, chunk, reads);
        }
        return bytes;
    }

    private static void run(int threads, int chunk, List<Read> reads)
            throws IOException, InterruptedException, ExecutionException {
        AtomicInteger next = new AtomicInteger();
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            List<Future<?>> workers = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                workers.add(pool.submit(() -> {
                    try (Arena arena = Arena.ofConfined()) {
                        MemorySegment buffer = arena.allocate(chunk, 64);
                        for (int i = next.getAndIncrement(); i < reads.size(); i = next.getAndIncrement()) {
                            reads.get(i).into(buffer);
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> worker : workers) {
                worker.get();
            }
        }
    }
}
