package dev.octet.formats.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.dcp.DcpFormat;
import dev.octet.formats.deepspeed.DeepSpeedFormat;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.file.PieceReader;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.megatron.MegatronFormat;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.model.ShardSet;
import dev.octet.formats.model.StreamedFormat;
import dev.octet.formats.safetensors.SafetensorsFormat;
import dev.octet.formats.safetensors.SafetensorsShards;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.torch.TorchFormat;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint of tensors: one file, an index of shards, or a folder with either. Opening reads headers and configuration only; tensors are read by position, so memory does not grow with the model. Several threads may read at once.
 */
public final class Checkpoint implements AutoCloseable {
    /** All formats whose tensors can be read by position, in the order of recognition. */
    public static final List<StreamedFormat> FORMATS = List.of(
            new MegatronFormat(), new DcpFormat(), new SafetensorsFormat(), new DeepSpeedFormat(), new TorchFormat());

    /** Reports the fault of what none recognises. */
    private static final StreamedFormat USUAL = new SafetensorsFormat();

    private final Path path;
    private final Path folder;
    private final StreamedFormat format;
    private final ShardSet files;
    private final Optional<ObjectNode> config;
    private final SequencedMap<String, StoredTensor> tensors;
    private final OpenFiles open = new OpenFiles();

    private Checkpoint(Path path, Path folder, StreamedFormat format, ShardSet files, Optional<ObjectNode> config) {
        this.path = path;
        this.folder = folder;
        this.format = format;
        this.files = files;
        this.config = config;
        List<Shard> shards = files.shards();
        int count = shards.stream().mapToInt(s -> s.header().entries().size()).sum();
        SequencedMap<String, StoredTensor> found = LinkedHashMap.newLinkedHashMap(count);
        for (Shard shard : shards) {
            for (ShardHeader.Entry e : shard.header().entries()) {
                found.putIfAbsent(e.spec().name(), new StoredTensor(e.spec(), shard, e.position(), e.pieces()));
            }
        }
        this.tensors = Collections.unmodifiableSequencedMap(found);
    }

    /** Whether {@code path} is a model of one of {@link #FORMATS}, judged by content. */
    public static boolean isCheckpoint(Path path) throws IOException {
        for (StreamedFormat format : FORMATS) {
            if (format.recognises(path)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Opens a checkpoint and checks that index and shards agree.
     *
     * @param path a file, an index, or a folder with either
     * @throws NoSuchFileException when {@code path} does not exist
     * @throws MalformedModelException when a file breaks a rule, which the message names, or {@code config.json} is not JSON
     * @throws UnsupportedModelException when a folder holds no safetensors model, or several without an index, or {@code path} is a GGUF file
     */
    public static Checkpoint open(Path path) throws IOException {
        return read(path, problem -> {
            throw problem;
        });
    }

    /**
     * Opens the readable parts: a shard, index or configuration that breaks a rule is reported to {@code problems} and omitted. For tools
     * that diagnose checkpoints.
     *
     * @throws NoSuchFileException when {@code path} does not exist
     * @throws UnsupportedModelException when a folder has no safetensors file
     */
    public static Checkpoint openLenient(Path path, Consumer<MalformedModelException> problems) throws IOException {
        return read(path, problems);
    }

    private static Checkpoint read(Path path, Consumer<MalformedModelException> problems) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        Path absolute = path.toAbsolutePath().normalize();
        Path folder = Files.isDirectory(absolute) ? absolute : parent(absolute);
        Optional<ObjectNode> config = Optional.empty();
        try {
            config = ModelConfig.read(folder);
        } catch (MalformedModelException e) {
            problems.accept(e);
        }
        StreamedFormat format = formatOf(absolute);
        return new Checkpoint(path, folder, format, format.shards(absolute, problems), config);
    }

    /** The format of what is there; the first one reports the fault of a file that none recognises. */
    private static StreamedFormat formatOf(Path path) throws IOException {
        for (StreamedFormat format : FORMATS) {
            if (format.recognises(path)) {
                return format;
            }
        }
        GgufFile.requireOther(path);
        return USUAL;
    }

    private static Path parent(Path file) throws IOException {
        Path parent = file.getParent();
        if (parent == null) {
            throw new NoSuchFileException(file.toString());
        }
        return parent;
    }

    /** The opened path, as given. */
    public Path path() {
        return path;
    }

    /** How it is stored. */
    public StreamedFormat format() {
        return format;
    }

    /** Whether it lies in files of safetensors, as consumers load it. */
    public boolean isSafetensors() {
        return files instanceof SafetensorsShards;
    }

    /** Whether a tensor is not one run of bytes in a file, so that reading it puts it together. */
    public boolean isScattered() {
        return tensors.values().stream()
                .anyMatch(t -> t.pieces().isPresent() && t.pieces().get().run().isEmpty());
    }

    /** The folder of its files. */
    public Path folder() {
        return folder;
    }

    /** Its files, sorted by name. */
    public List<Shard> shards() {
        return files.shards();
    }

    /** The index, for a sharded checkpoint in safetensors. */
    public Optional<ShardIndex> index() {
        return files instanceof SafetensorsShards safetensors ? safetensors.index() : Optional.empty();
    }

    /** {@code config.json} of the folder; callers must not change it ({@link ObjectNode#deepCopy} it first). */
    public Optional<ObjectNode> config() {
        return config;
    }

    /** All tensors by name, shard after shard, in the order of their bytes. */
    public SequencedMap<String, StoredTensor> tensors() {
        return tensors;
    }

    /** The tensor of this name; null if missing. */
    public @Nullable StoredTensor tensor(String name) {
        return tensors.get(name);
    }

    /**
     * Reads {@code into.byteSize()} bytes of a tensor.
     *
     * @param from first byte, counted from the tensor's first
     * @param into native memory
     * @throws EOFException when the file has become shorter than its header claims
     * @throws IOException when the file is missing or cannot be read
     */
    public void read(StoredTensor tensor, long from, MemorySegment into) throws IOException {
        if (from < 0 || from + into.byteSize() > tensor.spec().byteSize()) {
            throw new IndexOutOfBoundsException(
                    "bytes " + from + ".." + (from + into.byteSize()) + " of " + tensor.spec());
        }
        if (tensor.pieces().isPresent()) {
            PieceReader.read(open, tensor.pieces().get(), from, into);
        } else {
            open.read(tensor.shard().path(), tensor.position() + from, into);
        }
    }

    /**
     * Reads {@code into.byteSize()} bytes of a shard, possibly of several tensors.
     *
     * @param from first byte, counted from the start of the file
     * @param into native memory
     * @throws EOFException when the file has become shorter than its header says
     * @throws IOException when the file has vanished or cannot be read
     */
    public void read(Shard shard, long from, MemorySegment into) throws IOException {
        if (from < 0 || from + into.byteSize() > shard.header().fileBytes()) {
            throw new IndexOutOfBoundsException("bytes " + from + ".." + (from + into.byteSize()) + " of "
                    + shard.header().fileBytes());
        }
        boolean pieced =
                shard.header().entries().stream().anyMatch(e -> e.pieces().isPresent());
        if (!pieced) {
            open.read(shard.path(), from, into);
            return;
        }
        long end = from + into.byteSize();
        for (ShardHeader.Entry e : shard.header().entries()) {
            long first = Math.max(from, e.position());
            long last = Math.min(end, e.position() + e.spec().byteSize());
            if (first < last) {
                read(
                        new StoredTensor(e.spec(), shard, e.position(), e.pieces()),
                        first - e.position(),
                        into.asSlice(first - from, last - first));
            }
        }
    }

    /** What a user should know of its files, a sentence each: what is in them and is no tensor of the model, what was renamed. */
    public List<String> notes() {
        return files.notes();
    }

    /**
     * States of FP8 training in its files, in order: those of its format, then tensors that are called so.
     *
     * @throws MalformedModelException when one is longer than {@link ExtraState#MAX_BYTES} or lies outside of its file
     */
    public List<ExtraState> extraStates() throws IOException {
        List<ExtraState> states = new ArrayList<>(format.extraStates(path));
        for (StoredTensor tensor : tensors.values()) {
            String name = tensor.spec().name();
            if (!name.endsWith(ExtraState.NAME) || tensor.spec().dtype() != DType.U8) {
                continue;
            }
            long size = tensor.spec().byteSize();
            if (size > ExtraState.MAX_BYTES) {
                throw new MalformedModelException(
                        "tensor '" + name + "' has " + size + " bytes, at most " + ExtraState.MAX_BYTES + " are read",
                        path.toString(),
                        "save the checkpoint again");
            }
            try (Arena arena = Arena.ofConfined()) {
                byte[] bytes = read(tensor, arena).toArray(ValueLayout.JAVA_BYTE);
                states.add(new ExtraState(ExtraState.moduleOf(name), bytes, path.toString()));
            }
        }
        return states;
    }

    /** All bytes of a tensor, in {@code arena}; for small tensors, for example scales. */
    public MemorySegment read(StoredTensor tensor, Arena arena) throws IOException {
        MemorySegment bytes = arena.allocate(tensor.spec().byteSize(), 64);
        read(tensor, 0, bytes);
        return bytes;
    }

    /** Closes all files; a later read opens its file again. */
    @Override
    public void close() throws IOException {
        open.close();
    }
}
