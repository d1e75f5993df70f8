package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.dcp.DcpWriter;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** Writes the tensors of a checkpoint, as they are, in the form in which programs of torch resume training: a distributed checkpoint. Tensors are streamed. */
public final class TrainingFolder {
    private static final long PIECE_BYTES = 8L << 20;
    private static final String METADATA = ".metadata";
    private static final String EXTENSION = ".distcp";

    private final Checkpoint source;
    private final ByteCounter counter;

    private TrainingFolder(Checkpoint source, StreamOptions options) {
        this.source = source;
        this.counter = new ByteCounter(options.progress(), bytes(source));
    }

    /** Bytes of all tensors of a checkpoint. */
    public static long bytes(Checkpoint source) {
        return source.tensors().values().stream()
                .mapToLong(t -> t.spec().byteSize())
                .sum();
    }

    /**
     * Writes a folder that {@code torch.distributed.checkpoint.load} reads.
     *
     * @return bytes written
     * @throws InvalidOptionException when the folder is not empty and {@link StreamOptions#force} does not say to overwrite it, or it is the source's
     * @throws IOException when reading or writing fails
     */
    public static long write(Checkpoint source, Path folder, StreamOptions options) throws IOException {
        CheckpointRun.requireApart(source, folder);
        WholeFolder.requireFolder(folder);
        if (Files.exists(folder)) {
            clear(folder, options.force());
        }
        Files.createDirectories(folder);
        List<TensorSpec> specs =
                source.tensors().values().stream().map(StoredTensor::spec).toList();
        TrainingFolder run = new TrainingFolder(source, options);
        return DcpWriter.write(folder, specs, run::copy);
    }

    private static void clear(Path folder, boolean force) throws IOException {
        List<Path> there;
        try (Stream<Path> files = Files.list(folder)) {
            there = files.toList();
        }
        if (!there.isEmpty() && !force) {
            throw new InvalidOptionException(
                    "'" + folder + "' is not empty",
                    "--output",
                    "choose another folder, or overwrite the checkpoint in it with --force");
        }
        for (Path file : there) {
            String name = String.valueOf(file.getFileName());
            if (name.equals(METADATA) || name.endsWith(EXTENSION)) {
                Files.delete(file);
            }
        }
    }

    private void copy(TensorSpec spec, ByteSink sink) throws IOException {
        StoredTensor tensor = source.tensor(spec.name());
        if (tensor == null) {
            throw new IllegalArgumentException("there is no tensor '" + spec.name() + "'");
        }
        long size = spec.byteSize();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment piece = arena.allocate(Math.max(1, Math.min(PIECE_BYTES, size)), 64);
            for (long from = 0; from < size; from += PIECE_BYTES) {
                MemorySegment part = piece.asSlice(0, Math.min(PIECE_BYTES, size - from));
                source.read(tensor, from, part);
                sink.write(part);
                counter.add(part.byteSize());
            }
        }
    }
}
