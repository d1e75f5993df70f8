package dev.octet.bench;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * What the machine allows: reads every byte of the files of one folder and writes as many bytes as a program that turned them into those of
 * another folder had to write, and computes nothing. {@code THREADS CHUNK_MIB IN OUT SIZES}: each {@code .safetensors} file of IN is
 * read in chunks, by position, into one direct buffer for each thread; with each chunk its share of the file of the same name in SIZES
 * is written to OUT, by position, from the same buffer. Nothing is forced to the disk. OUT must exist; its files are replaced.
 */
public final class CopyLimit {
    private static final int MIB = 1 << 20;

    private CopyLimit() {}

    /** A chunk of a file and where its share of the output goes. */
    private record Chunk(FileChannel in, long from, int length, FileChannel out, long to, int written) {
        void copy(ByteBuffer buffer) throws IOException {
            buffer.limit(length).position(0);
            while (buffer.hasRemaining()) {
                if (in.read(buffer, from + buffer.position()) < 0) {
                    throw new EOFException("a file of the input shrank");
                }
            }
            buffer.limit(written).position(0);
            while (buffer.hasRemaining()) {
                out.write(buffer, to + buffer.position());
            }
        }
    }

    /** Prints one JSON line: seconds without the JVM's start, gigabytes read and written. */
    public static void main(String[] args) throws IOException, InterruptedException, ExecutionException {
        if (args.length != 5) {
            throw new IllegalArgumentException("usage: THREADS CHUNK_MIB IN OUT SIZES");
        }
        int threads = Integer.parseInt(args[0]);
        int chunk = Math.multiplyExact(Integer.parseInt(args[1]), MIB);
        List<FileChannel> open = new ArrayList<>();
        long start = System.nanoTime();
        try {
            List<Chunk> chunks = plan(chunk, Path.of(args[2]), Path.of(args[3]), Path.of(args[4]), open);
            run(threads, chunks);
            double seconds = (System.nanoTime() - start) / 1e9;
            long read = chunks.stream().mapToLong(Chunk::length).sum();
            long written = chunks.stream().mapToLong(Chunk::written).sum();
            System.out.printf(
                    "{\"seconds\": %.4f, \"gigabytes\": %.4f, \"gigabytes_written\": %.4f}%n",
                    seconds, read / 1e9, written / 1e9);
        } finally {
            for (FileChannel channel : open) {
                channel.close();
            }
        }
    }

    private static List<Chunk> plan(int chunk, Path in, Path out, Path sizes, List<FileChannel> open)
            throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.list(in)) {
            files = all.filter(f -> f.toString().endsWith(".safetensors"))
                    .sorted()
                    .toList();
        }
        List<Chunk> chunks = new ArrayList<>();
        for (Path file : files) {
            Path name = file.getFileName();
            long length = Files.size(file);
            double share = (double) Files.size(sizes.resolve(name)) / length;
            FileChannel source = FileChannel.open(file);
            open.add(source);
            FileChannel target = FileChannel.open(
                    out.resolve(name),
                    StandardOpenOption.CREATE,
                    StandardOpenOption.WRITE,
                    StandardOpenOption.TRUNCATE_EXISTING);
            open.add(target);
            for (long from = 0; from < length; from += chunk) {
                int count = (int) Math.min(chunk, length - from);
                long to = Math.round(from * share);
                chunks.add(new Chunk(
                        source, from, count, target, to, Math.toIntExact(Math.round((from + count) * share) - to)));
            }
        }
        return chunks;
    }

    private static void run(int threads, List<Chunk> chunks) throws InterruptedException, ExecutionException {
        int largest = chunks.stream()
                .mapToInt(c -> Math.max(c.length(), c.written()))
                .max()
                .orElse(0);
        AtomicInteger next = new AtomicInteger();
        try (ExecutorService workers = Executors.newFixedThreadPool(threads)) {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(workers.submit(() -> {
                    ByteBuffer buffer = ByteBuffer.allocateDirect(largest);
                    for (int at = next.getAndIncrement(); at < chunks.size(); at = next.getAndIncrement()) {
                        chunks.get(at).copy(buffer);
                    }
                    return null;
                }));
            }
            for (Future<?> worker : running) {
                worker.get();
            }
        }
    }
}
