package dev.octet.formats.safetensors;

import static dev.octet.formats.safetensors.SafetensorsRule.AMBIGUOUS_FOLDER;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.StreamedFormat;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * safetensors models: one file, an index with its shards, or a folder with either. Files are mapped and tensors are views; opening touches
 * the headers only. The format has no graph.
 *
 * @param limits limits of a header
 */
public record SafetensorsFormat(HeaderLimits limits) implements StreamedFormat {
    /** The configuration of an adapter in a folder of PEFT. */
    public static final String ADAPTER_CONFIG = "adapter_config.json";

    private static final String EXTENSION = ".safetensors";
    private static final JsonFactory JSON = new JsonFactory();

    /** The format with {@link HeaderLimits#DEFAULT}. */
    public SafetensorsFormat() {
        this(HeaderLimits.DEFAULT);
    }

    @Override
    public String name() {
        return "safetensors";
    }

    /**
     * Recognises a file whose 9th byte starts a JSON object after a plausible length, an index (a JSON object with a weight_map), and a
     * folder with a {@code .safetensors} file.
     */
    @Override
    public boolean recognises(Path path) throws IOException {
        if (Files.isDirectory(path)) {
            return Files.exists(path.resolve(ShardIndex.FILE_NAME))
                    || !safetensorsFiles(path).isEmpty();
        }
        byte[] head = MappedFile.head(path, SafetensorsHeader.LENGTH_BYTES + 1);
        return isFileHead(head) || isIndex(path, head);
    }

    private boolean isFileHead(byte[] head) {
        if (head.length <= SafetensorsHeader.LENGTH_BYTES) {
            return false;
        }
        MemorySegment bytes = MemorySegment.ofArray(head);
        long headerBytes = bytes.get(Tensor.I64_LE, 0);
        byte first = bytes.get(ValueLayout.JAVA_BYTE, SafetensorsHeader.LENGTH_BYTES);
        return headerBytes > 0
                && headerBytes <= limits.maxHeaderBytes()
                && (first == '{' || first == ' ' || first == '\t' || first == '\r' || first == '\n');
    }

    private static boolean isIndex(Path path, byte[] head) throws IOException {
        if (!new String(head, StandardCharsets.ISO_8859_1).stripLeading().startsWith("{")) {
            return false;
        }
        // Latin-1, in which any bytes are text: the field is ASCII, and the rest is irrelevant here.
        try (var in = Files.newBufferedReader(path, StandardCharsets.ISO_8859_1);
                JsonParser parser = JSON.createParser(in)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                if (parser.currentName().equals("weight_map")) {
                    return !isOfTorch(parser);
                }
                parser.nextToken();
                parser.skipChildren();
            }
            return false;
        } catch (JsonProcessingException e) {
            return false; // another text that starts with a brace
        }
    }

    /** Whether an index of this form names files of torch. */
    private static boolean isOfTorch(JsonParser parser) throws IOException {
        return parser.nextToken() == JsonToken.START_OBJECT
                && parser.nextToken() == JsonToken.FIELD_NAME
                && parser.nextToken() == JsonToken.VALUE_STRING
                && parser.getText().endsWith(".bin");
    }

    /**
     * {@inheritDoc}
     *
     * <p>Tensors are in the order of their bytes, shard after shard. Metadata of shards is merged; the first shard with a key wins.
     */
    @Override
    public Model read(Path path, Arena arena) throws IOException {
        if (Files.isDirectory(path)) {
            return read(modelFile(path), arena);
        }
        if (isIndex(path, MappedFile.head(path, SafetensorsHeader.LENGTH_BYTES + 1))) {
            return readShards(path, arena);
        }
        return model(List.of(part(path, arena)));
    }

    @Override
    public SafetensorsShards shards(Path path, Consumer<MalformedModelException> problems) throws IOException {
        return SafetensorsShards.read(path.toAbsolutePath(), problems);
    }

    @Override
    public List<Path> otherFiles(Path path) throws IOException {
        boolean index =
                !Files.isDirectory(path) && isIndex(path, MappedFile.head(path, SafetensorsHeader.LENGTH_BYTES + 1));
        return index ? List.copyOf(ShardIndex.read(path).shardPaths(path).values()) : List.of();
    }

    /** One mapped file. */
    private record Part(MemorySegment file, SafetensorsHeader header) {}

    private Part part(Path path, Arena arena) throws IOException {
        MemorySegment file = MappedFile.map(path, arena);
        return new Part(file, SafetensorsHeader.parse(file, path.toString(), limits));
    }

    private Model readShards(Path index, Arena arena) throws IOException {
        ShardIndex shardIndex = ShardIndex.read(index);
        List<Part> parts = new ArrayList<>();
        Map<String, List<String>> tensors = new LinkedHashMap<>();
        for (Map.Entry<String, Path> shard : shardIndex.shardPaths(index).entrySet()) {
            Part part = part(shard.getValue(), arena);
            parts.add(part);
            tensors.put(
                    shard.getKey(),
                    part.header().entries().stream().map(e -> e.spec().name()).toList());
        }
        shardIndex.check(tensors, index);
        return model(parts);
    }

    private static Model model(List<Part> parts) {
        int count = parts.stream().mapToInt(p -> p.header().entries().size()).sum();
        Map<String, Tensor> tensors = LinkedHashMap.newLinkedHashMap(count);
        Map<String, String> metadata = new LinkedHashMap<>();
        for (Part part : parts) {
            SafetensorsHeader header = part.header();
            MemorySegment data = part.file().asSlice(header.dataStart());
            header.metadata().forEach(metadata::putIfAbsent);
            for (SafetensorsHeader.Entry e : header.entries()) {
                tensors.put(
                        e.spec().name(),
                        new Tensor(e.spec(), data.asSlice(e.begin(), e.spec().byteSize())));
            }
        }
        return Model.of(tensors, metadata);
    }

    /**
     * Refuses the folder of an adapter, whose tensors are no weights of a model.
     *
     * @throws UnsupportedModelException when there is the configuration of an adapter and no model
     */
    static void refuseAdapter(Path folder) {
        if (Files.exists(folder.resolve(ADAPTER_CONFIG))
                && !Files.exists(folder.resolve(SafetensorsWriter.SINGLE_FILE))
                && !Files.exists(folder.resolve(ShardIndex.FILE_NAME))) {
            throw new UnsupportedModelException(
                    "the folder holds an adapter, not a model",
                    folder.toString(),
                    "merge it into its base with `octet merge BASE ADAPTER -o OUT`, and give OUT");
        }
    }

    /** The file or index of the model in a folder. */
    private static Path modelFile(Path folder) throws IOException {
        refuseAdapter(folder);
        Path index = folder.resolve(ShardIndex.FILE_NAME);
        Path single = folder.resolve(SafetensorsWriter.SINGLE_FILE);
        if (Files.exists(index)
                && Files.exists(single)
                && !ShardIndex.read(index).shardNames().contains(SafetensorsWriter.SINGLE_FILE)) {
            throw AMBIGUOUS_FOLDER.broken(
                    "there are a " + SafetensorsWriter.SINGLE_FILE
                            + " and an index that does not name it; loaders disagree which of them counts",
                    folder.toString());
        }
        if (Files.exists(index)) {
            return index;
        }
        if (Files.exists(single)) {
            return single;
        }
        List<Path> files = safetensorsFiles(folder);
        if (files.size() == 1) {
            return files.getFirst();
        }
        if (files.isEmpty()) {
            throw new UnsupportedModelException(
                    "there is no safetensors model in this folder",
                    folder.toString(),
                    "give a folder with model.safetensors or " + ShardIndex.FILE_NAME);
        }
        throw AMBIGUOUS_FOLDER.broken(
                "there are " + files.size() + " safetensors files and no " + ShardIndex.FILE_NAME, folder.toString());
    }

    private static List<Path> safetensorsFiles(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(f -> f.toString().endsWith(EXTENSION)).toList();
        }
    }

    /**
     * {@inheritDoc}
     *
     * <p>An existing folder gets {@code model.safetensors}, or shards with an index above {@link SafetensorsWriter#DEFAULT_SHARD_BYTES}.
     *
     * @throws UnsupportedModelException when safetensors cannot hold one of the tensors
     */
    @Override
    public void write(Model model, Path path) throws IOException {
        if (Files.isDirectory(path)) {
            SafetensorsWriter.writeFolder(
                    path, model.tensors(), model.metadata(), SafetensorsWriter.DEFAULT_SHARD_BYTES);
        } else {
            SafetensorsWriter.write(path, model.tensors(), model.metadata());
        }
    }
}
