package dev.octet.formats.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.safetensors.HeaderLimits;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.safetensors.ShardIndex;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint of tensors in safetensors files: one file, an index of shards, or a folder with either. Opening reads headers and
 * configuration only; tensors are read by position, so memory does not grow with the model. Several threads may read at once.
 */
public final class Checkpoint implements AutoCloseable {
    private static final String EXTENSION = ".safetensors";
    private static final String SINGLE_FILE = "model.safetensors";

    private final Path path;
    private final Path folder;
    private final List<Shard> shards;
    private final Optional<ShardIndex> index;
    private final Optional<ObjectNode> config;
    private final SequencedMap<String, StoredTensor> tensors;
    private final OpenFiles open = new OpenFiles();

    private Checkpoint(
            Path path, Path folder, List<Shard> shards, Optional<ShardIndex> index, Optional<ObjectNode> config) {
        this.path = path;
        this.folder = folder;
        this.shards = List.copyOf(shards);
        this.index = index;
        this.config = config;
        int count = shards.stream().mapToInt(s -> s.header().entries().size()).sum();
        SequencedMap<String, StoredTensor> found = LinkedHashMap.newLinkedHashMap(count);
        for (Shard shard : shards) {
            for (SafetensorsHeader.Entry e : shard.header().entries()) {
                found.putIfAbsent(
                        e.spec().name(),
                        new StoredTensor(e.spec(), shard, shard.header().dataStart() + e.begin()));
            }
        }
        this.tensors = Collections.unmodifiableSequencedMap(found);
    }

    /** Whether {@code path} is a safetensors file, an index of shards, or a folder with either, judged by content. */
    public static boolean isCheckpoint(Path path) throws IOException {
        return new dev.octet.formats.safetensors.SafetensorsFormat().recognises(path);
    }

    /**
     * Opens a checkpoint and checks that index and shards agree.
     *
     * @param path a {@code .safetensors} file, an index, or a folder with either
     * @throws NoSuchFileException when {@code path} does not exist
     * @throws MalformedModelException when a file breaks a rule, which the message names, or {@code config.json} is not JSON
     * @throws UnsupportedModelException when a folder holds no safetensors model, or several without an index
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
        boolean directory = Files.isDirectory(absolute);
        Path folder = directory ? absolute : parent(absolute);
        Optional<ObjectNode> config = Optional.empty();
        try {
            config = ModelConfig.read(folder);
        } catch (MalformedModelException e) {
            problems.accept(e);
        }
        Path indexFile = directory ? folder.resolve(ShardIndex.FILE_NAME) : absolute;
        boolean sharded =
                directory ? Files.exists(indexFile) : absolute.toString().endsWith(".json");
        if (!sharded) {
            Path file = directory ? singleFile(folder) : absolute;
            List<Shard> shards = new ArrayList<>();
            readShard(file, problems).ifPresent(shards::add);
            return new Checkpoint(path, folder, shards, Optional.empty(), config);
        }
        return readShards(path, folder, indexFile, config, problems);
    }

    private static Path parent(Path file) throws IOException {
        Path parent = file.getParent();
        if (parent == null) {
            throw new NoSuchFileException(file.toString());
        }
        return parent;
    }

    private static Path singleFile(Path folder) throws IOException {
        Path single = folder.resolve(SINGLE_FILE);
        if (Files.exists(single)) {
            return single;
        }
        List<Path> files;
        try (Stream<Path> all = Files.list(folder)) {
            files = all.filter(f -> f.toString().endsWith(EXTENSION)).sorted().toList();
        }
        if (files.size() == 1) {
            return files.getFirst();
        }
        throw new UnsupportedModelException(
                files.isEmpty()
                        ? "there is no safetensors model in this folder"
                        : "there are " + files.size() + " safetensors files and no " + ShardIndex.FILE_NAME,
                folder.toString(),
                "give a folder with model.safetensors or " + ShardIndex.FILE_NAME + ", or one .safetensors file");
    }

    private static Checkpoint readShards(
            Path path,
            Path folder,
            Path indexFile,
            Optional<ObjectNode> config,
            Consumer<MalformedModelException> problems)
            throws IOException {
        ShardIndex index;
        try {
            index = ShardIndex.read(indexFile);
        } catch (MalformedModelException e) {
            problems.accept(e);
            return new Checkpoint(path, folder, allShards(folder, problems), Optional.empty(), config);
        }
        List<Shard> shards = new ArrayList<>();
        try {
            readTogether(index, index.shardPaths(indexFile), problems, shards);
            Map<String, SafetensorsHeader> headers = new LinkedHashMap<>();
            shards.forEach(s -> headers.put(s.name(), s.header()));
            index.check(headers, indexFile);
        } catch (MalformedModelException e) {
            problems.accept(e);
            if (shards.isEmpty()) {
                shards.addAll(allShards(folder, problems));
            }
        }
        return new Checkpoint(path, folder, shards, Optional.of(index), config);
    }

    /** The result of reading one shard: its header, or the failure. */
    private record Attempt(
            @Nullable Shard shard,
            @Nullable MalformedModelException broken,
            @Nullable IOException failed) {}

    /** Reads headers in several threads; reports problems in the order of the files. */
    private static void readTogether(
            ShardIndex index, Map<String, Path> files, Consumer<MalformedModelException> problems, List<Shard> shards)
            throws IOException {
        // keeps the index's String of a name, so that the name is in memory only once
        Map<String, String> names = HashMap.newHashMap(index.weightMap().size());
        index.weightMap().keySet().forEach(n -> names.put(n, n));
        UnaryOperator<String> known = name -> names.getOrDefault(name, name);
        List<Attempt> attempts = List.copyOf(files.entrySet()).parallelStream()
                .map(f -> attempt(f.getKey(), f.getValue(), known))
                .toList();
        for (Attempt attempt : attempts) {
            if (attempt.failed() != null) {
                throw attempt.failed();
            }
            if (attempt.broken() != null) {
                problems.accept(attempt.broken());
            }
            if (attempt.shard() != null) {
                shards.add(attempt.shard());
            }
        }
    }

    private static Attempt attempt(String name, Path file, UnaryOperator<String> names) {
        try {
            return new Attempt(readShard(name, file, names), null, null);
        } catch (MalformedModelException e) {
            return new Attempt(null, e, null);
        } catch (IOException e) {
            return new Attempt(null, null, e);
        }
    }

    private static List<Shard> allShards(Path folder, Consumer<MalformedModelException> problems) throws IOException {
        List<Shard> shards = new ArrayList<>();
        List<Path> files;
        try (Stream<Path> all = Files.list(folder)) {
            files = all.filter(f -> f.toString().endsWith(EXTENSION)).sorted().toList();
        }
        for (Path file : files) {
            readShard(file, problems).ifPresent(shards::add);
        }
        return shards;
    }

    private static Optional<Shard> readShard(Path file, Consumer<MalformedModelException> problems) throws IOException {
        try {
            return Optional.of(readShard(String.valueOf(file.getFileName()), file, UnaryOperator.identity()));
        } catch (MalformedModelException e) {
            problems.accept(e);
            return Optional.empty();
        }
    }

    private static Shard readShard(String name, Path file, UnaryOperator<String> names) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = MappedFile.map(file, arena);
            return new Shard(name, file, SafetensorsHeader.parse(bytes, file.toString(), HeaderLimits.DEFAULT, names));
        }
    }

    /** The opened path, as given. */
    public Path path() {
        return path;
    }

    /** The folder of its files. */
    public Path folder() {
        return folder;
    }

    /** Its files, sorted by name. */
    public List<Shard> shards() {
        return shards;
    }

    /** The index, for a sharded checkpoint. */
    public Optional<ShardIndex> index() {
        return index;
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
        open.read(tensor.shard().path(), tensor.position() + from, into);
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
        open.read(shard.path(), from, into);
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
