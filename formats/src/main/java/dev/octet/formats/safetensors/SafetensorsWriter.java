package dev.octet.formats.safetensors;

import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Writes safetensors files tensor by tensor; only the piece that the caller passes is in memory.
 *
 * <p>The bytes equal the reference writer's: tensors sorted by element type (widest first) and name, compact JSON with the metadata first,
 * padded with spaces to 8 bytes. Metadata keys, whose order is random in the reference writer, are sorted.
 */
public final class SafetensorsWriter {
    /** Default size limit of a shard in bytes of tensor data, as in Hugging Face's libraries. */
    public static final long DEFAULT_SHARD_BYTES = PiecedShards.SHARD_BYTES;

    static final String SINGLE_FILE = "model.safetensors";
    private static final Pattern SHARD_FILE = Pattern.compile("model-\\d{5,}-of-\\d{5,}\\.safetensors");

    private SafetensorsWriter() {}

    /** Provides the bytes of one tensor at a time. */
    @FunctionalInterface
    public interface Content {
        /**
         * Writes the {@code spec.byteSize()} bytes of one tensor in any number of pieces: little-endian, row-major. Called once for each
         * tensor, in the order of the file.
         */
        void write(TensorSpec spec, ByteSink sink) throws IOException;

        /** The bytes of existing tensors. */
        static Content of(Map<String, Tensor> tensors) {
            return (spec, sink) -> {
                Tensor tensor = tensors.get(spec.name());
                if (tensor == null) {
                    throw new IllegalArgumentException("there is no tensor '" + spec.name() + "'");
                }
                sink.write(tensor.bytes());
            };
        }
    }

    /**
     * Writes one file atomically: a failure leaves an earlier file at {@code path} unchanged.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link SafetensorsHeader#layout}
     * @throws IllegalStateException when {@code content} writes more or fewer bytes than a tensor has
     * @throws IOException when there is no space or no permission
     */
    public static void write(Path path, Collection<TensorSpec> specs, Map<String, String> metadata, Content content)
            throws IOException {
        try (AtomicFile file = AtomicFile.create(path)) {
            writeTo(file, specs, metadata, content);
            file.commit();
        }
    }

    /** Writes one file of existing tensors; see {@link #write(Path, Collection, Map, Content)}. */
    public static void write(Path path, Map<String, Tensor> tensors, Map<String, String> metadata) throws IOException {
        write(path, specs(tensors), metadata, Content.of(tensors));
    }

    /**
     * A file of existing tensors under its temporary name, for callers that make several files visible together.
     *
     * @return the file, to be committed or closed
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link SafetensorsHeader#layout}
     * @throws IOException when there is no space or no permission
     */
    public static AtomicFile begin(Path path, Map<String, Tensor> tensors, Map<String, String> metadata)
            throws IOException {
        AtomicFile file = AtomicFile.create(path);
        boolean whole = false;
        try {
            writeTo(file, specs(tensors), metadata, Content.of(tensors));
            whole = true;
            return file;
        } finally {
            if (!whole) {
                file.close();
            }
        }
    }

    private static List<TensorSpec> specs(Map<String, Tensor> tensors) {
        List<TensorSpec> specs = new ArrayList<>(tensors.size());
        tensors.forEach((name, tensor) -> specs.add(tensor.spec().withName(name)));
        return specs;
    }

    private static void writeTo(
            AtomicFile file, Collection<TensorSpec> specs, Map<String, String> metadata, Content content)
            throws IOException {
        SafetensorsHeader header = SafetensorsHeader.layout(specs, metadata);
        file.expect(header.fileBytes());
        file.write(MemorySegment.ofArray(header.toBytes()));
        for (SafetensorsHeader.Entry entry : header.entries()) {
            content.write(entry.spec(), file);
            long end = header.dataStart() + entry.end();
            if (file.position() != end) {
                throw new IllegalStateException(
                        entry.spec() + " takes " + entry.spec().byteSize() + " bytes, its source wrote "
                                + (file.position() - end + entry.spec().byteSize()));
            }
        }
    }

    /**
     * Writes a folder as Hugging Face's libraries do: one {@code model.safetensors} if all tensors fit in {@code maxShardBytes}, else
     * {@code model-00001-of-0000N.safetensors} with {@code model.safetensors.index.json}. Tensors fill the shards in the given order; a
     * tensor larger than a shard gets its own.
     *
     * <p>Files are written under temporary names first. Then the old index is deleted, the shards are renamed, and the new index comes
     * last: a crash in between leaves a folder that readers refuse, never a mixture they accept. Shards and index of an earlier save that
     * are not part of this save are deleted.
     *
     * @param folder created if missing
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link SafetensorsHeader#layout}
     * @throws IOException when there is no space or no permission
     */
    public static void writeFolder(
            Path folder,
            Collection<TensorSpec> specs,
            Map<String, String> metadata,
            long maxShardBytes,
            Content content)
            throws IOException {
        Files.createDirectories(folder);
        List<List<TensorSpec>> shards = shards(specs, maxShardBytes);
        List<AtomicFile> files = new ArrayList<>();
        Map<String, String> weightMap = new LinkedHashMap<>();
        Set<String> written = new HashSet<>();
        try {
            for (int i = 0; i < shards.size(); i++) {
                String name = shards.size() == 1
                        ? SINGLE_FILE
                        : String.format("model-%05d-of-%05d.safetensors", i + 1, shards.size());
                AtomicFile file = AtomicFile.create(folder.resolve(name));
                files.add(file);
                writeTo(file, shards.get(i), metadata, content);
                shards.get(i).forEach(spec -> weightMap.put(spec.name(), name));
                written.add(name);
            }
            Files.deleteIfExists(folder.resolve(ShardIndex.FILE_NAME));
            for (AtomicFile file : files) {
                file.commit();
            }
        } finally {
            closeAll(files);
        }
        if (shards.size() > 1) {
            long totalSize = specs.stream().mapToLong(TensorSpec::byteSize).sum();
            new ShardIndex(weightMap, OptionalLong.of(totalSize)).write(folder.resolve(ShardIndex.FILE_NAME));
        }
        deleteEarlierShards(folder, written);
    }

    /** Writes a folder of existing tensors; see {@link #writeFolder(Path, Collection, Map, long, Content)}. */
    public static void writeFolder(
            Path folder, Map<String, Tensor> tensors, Map<String, String> metadata, long maxShardBytes)
            throws IOException {
        writeFolder(folder, specs(tensors), metadata, maxShardBytes, Content.of(tensors));
    }

    private static List<List<TensorSpec>> shards(Collection<TensorSpec> specs, long maxShardBytes) {
        List<List<TensorSpec>> shards = new ArrayList<>();
        List<TensorSpec> shard = new ArrayList<>();
        long shardBytes = 0;
        for (TensorSpec spec : specs) {
            if (!shard.isEmpty() && shardBytes + spec.byteSize() > maxShardBytes) {
                shards.add(shard);
                shard = new ArrayList<>();
                shardBytes = 0;
            }
            shard.add(spec);
            shardBytes += spec.byteSize();
        }
        shards.add(shard);
        return shards;
    }

    private static void closeAll(List<AtomicFile> files) throws IOException {
        IOException failure = null;
        for (AtomicFile file : files) {
            try {
                file.close();
            } catch (IOException e) {
                if (failure == null) {
                    failure = e;
                } else {
                    failure.addSuppressed(e);
                }
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private static void deleteEarlierShards(Path folder, Set<String> written) throws IOException {
        List<Path> earlier;
        try (Stream<Path> files = Files.list(folder)) {
            earlier = files.filter(f ->
                            isModelFile(f) && !written.contains(f.getFileName().toString()))
                    .toList();
        }
        for (Path file : earlier) {
            Files.delete(file);
        }
    }

    private static boolean isModelFile(Path file) {
        String name = String.valueOf(file.getFileName());
        return name.equals(SINGLE_FILE) || SHARD_FILE.matcher(name).matches();
    }
}
