package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.dcp.DcpWriter;
import dev.octet.formats.deepspeed.UniversalWriter;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Writes the tensors of a checkpoint in a form in which programs of torch start or resume training: a distributed checkpoint, or DeepSpeed's universal one. Tensors
 * are streamed.
 */
public final class TrainingFolder {
    private static final long PIECE_BYTES = 8L << 20;
    private static final String METADATA = ".metadata";
    private static final String EXTENSION = ".distcp";
    private static final Set<DType> WIDENED = Set.of(DType.F32, DType.BF16, DType.F16);

    private final Checkpoint source;
    private final ByteCounter counter;

    private TrainingFolder(Checkpoint source, StreamOptions options) {
        this.source = source;
        this.counter = new ByteCounter(options.progress(), bytes(source));
    }

    /** Forms of folders. */
    public enum Form {
        /** {@code torch.distributed.checkpoint.load} reads it; tensors are as they were. */
        DCP,
        /** DeepSpeed's {@code load_universal_checkpoint} reads it; parameters are in F32, which holds BF16 and F16 exactly. */
        DEEPSPEED_UNIVERSAL
    }

    /** Bytes of all tensors of a checkpoint. */
    public static long bytes(Checkpoint source) {
        return source.tensors().values().stream()
                .mapToLong(t -> t.spec().byteSize())
                .sum();
    }

    /**
     * Writes a folder.
     *
     * @return bytes written
     * @throws InvalidOptionException when the folder is not empty and {@link StreamOptions#force} does not say to overwrite it, or it is the source's
     * @throws UnsupportedModelException when the form has no such tensors
     * @throws IOException when reading or writing fails
     */
    public static long write(Checkpoint source, Path folder, Form form, StreamOptions options) throws IOException {
        CheckpointRun.requireApart(source, folder);
        WholeFolder.requireFolder(folder);
        List<TensorSpec> written = written(source, form);
        if (Files.exists(folder)) {
            clear(folder, options.force());
        }
        Files.createDirectories(folder);
        TrainingFolder run = new TrainingFolder(source, options);
        return switch (form) {
            case DCP -> DcpWriter.write(folder, written, run::copy);
            case DEEPSPEED_UNIVERSAL -> UniversalWriter.write(folder, written, run::widen);
        };
    }

    /**
     * The tensors that a folder would have.
     *
     * @throws UnsupportedModelException when the form has no such tensors
     */
    public static List<TensorSpec> written(Checkpoint source, Form form) {
        List<TensorSpec> specs =
                source.tensors().values().stream().map(StoredTensor::spec).toList();
        return switch (form) {
            case DCP -> specs;
            case DEEPSPEED_UNIVERSAL ->
                specs.stream()
                        .filter(TrainingFolder::isParameter)
                        .map(TrainingFolder::inF32)
                        .toList();
        };
    }

    /** Whether a tensor can be trained; integers are buffers, which DeepSpeed leaves to the program. */
    private static boolean isParameter(TensorSpec spec) {
        DType type = spec.dtype();
        if (!WIDENED.contains(type) && (type.isFloat() || type.bits() < Byte.SIZE)) {
            throw new UnsupportedModelException(
                    "parameters of DeepSpeed are F32, which does not hold " + type + " as it is",
                    "tensor '" + spec.name() + "'",
                    type == DType.F64
                            ? "convert it to F32 first"
                            : "make floats of the checkpoint first: octet dequantize");
        }
        return WIDENED.contains(type);
    }

    private static TensorSpec inF32(TensorSpec spec) {
        return new TensorSpec(spec.name(), DType.F32, spec.shape());
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
            if (name.equals(METADATA) || name.endsWith(EXTENSION) || name.equals(UniversalWriter.LATEST)) {
                Files.delete(file);
            }
        }
        UniversalWriter.delete(folder);
    }

    /** The tensor's elements in F32. */
    private void widen(TensorSpec spec, ByteSink sink) throws IOException {
        StoredTensor tensor = tensor(spec);
        DType type = tensor.spec().dtype();
        if (type == DType.F32) {
            copy(spec, sink);
            return;
        }
        long width = type.bits() / Byte.SIZE;
        long count = spec.shape().elementCount();
        long most = PIECE_BYTES / Float.BYTES;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment narrow = arena.allocate(Math.max(1, Math.min(most, count) * width), 64);
            MemorySegment wide = arena.allocate(Math.max(1, Math.min(most, count) * Float.BYTES), 64);
            for (long from = 0; from < count; from += most) {
                long n = Math.min(most, count - from);
                source.read(tensor, from * width, narrow.asSlice(0, n * width));
                Floats.convert(type, narrow, DType.F32, wide, n);
                sink.write(wide.asSlice(0, n * Float.BYTES));
                counter.add(n * width);
            }
        }
    }

    private StoredTensor tensor(TensorSpec spec) {
        StoredTensor tensor = source.tensor(spec.name());
        if (tensor == null) {
            throw new IllegalArgumentException("there is no tensor '" + spec.name() + "'");
        }
        return tensor;
    }

    private void copy(TensorSpec spec, ByteSink sink) throws IOException {
        StoredTensor tensor = tensor(spec);
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
