package dev.octet.formats.safetensors;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardSet;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The safetensors files of a checkpoint.
 *
 * @param index the index, for several files
 */
public record SafetensorsShards(List<Shard> shards, Optional<ShardIndex> index) implements ShardSet {
    private static final String EXTENSION = ".safetensors";

    public SafetensorsShards {
        shards = List.copyOf(shards);
    }

    /** As {@link SafetensorsFormat#shards}. */
    static SafetensorsShards read(Path path, Consumer<MalformedModelException> problems) throws IOException {
        boolean directory = Files.isDirectory(path);
        Path indexFile = directory ? path.resolve(ShardIndex.FILE_NAME) : path;
        boolean sharded = directory ? Files.exists(indexFile) : path.toString().endsWith(".json");
        if (sharded) {
            return readShards(directory ? path : path.resolveSibling(""), indexFile, problems);
        }
        List<Shard> shards = new ArrayList<>();
        readShard(directory ? singleFile(path) : path, problems).ifPresent(shards::add);
        return new SafetensorsShards(shards, Optional.empty());
    }

    private static Path singleFile(Path folder) throws IOException {
        SafetensorsFormat.refuseAdapter(folder);
        Path single = folder.resolve(SafetensorsWriter.SINGLE_FILE);
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

    private static SafetensorsShards readShards(Path folder, Path indexFile, Consumer<MalformedModelException> problems)
            throws IOException {
        ShardIndex index;
        try {
            index = ShardIndex.read(indexFile);
        } catch (MalformedModelException e) {
            problems.accept(e);
            return new SafetensorsShards(allShards(folder, problems), Optional.empty());
        }
        List<Shard> shards = new ArrayList<>();
        try {
            readTogether(index, index.shardPaths(indexFile), problems, shards);
            Map<String, List<String>> tensors = new LinkedHashMap<>();
            shards.forEach(s -> tensors.put(
                    s.name(),
                    s.header().entries().stream().map(e -> e.spec().name()).toList()));
            index.check(tensors, indexFile);
        } catch (MalformedModelException e) {
            problems.accept(e);
            if (shards.isEmpty()) {
                shards.addAll(allShards(folder, problems));
            }
        }
        return new SafetensorsShards(shards, Optional.of(index));
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
            return new Shard(
                    name,
                    file,
                    SafetensorsHeader.parse(bytes, file.toString(), HeaderLimits.DEFAULT, names)
                            .shardHeader());
        }
    }
}
