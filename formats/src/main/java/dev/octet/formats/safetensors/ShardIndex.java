package dev.octet.formats.safetensors;

import static dev.octet.formats.safetensors.SafetensorsRule.DUPLICATE_KEY;
import static dev.octet.formats.safetensors.SafetensorsRule.INVALID_INDEX;
import static dev.octet.formats.safetensors.SafetensorsRule.LIMIT_EXCEEDED;
import static dev.octet.formats.safetensors.SafetensorsRule.MISSING_SHARD;
import static dev.octet.formats.safetensors.SafetensorsRule.MISSING_TENSOR;
import static dev.octet.formats.safetensors.SafetensorsRule.SHARD_OUTSIDE;
import static dev.octet.formats.safetensors.SafetensorsRule.STALE_TENSOR;
import static dev.octet.formats.safetensors.SafetensorsRule.TENSOR_IN_TWO_SHARDS;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.core.util.Separators;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.AtomicFile;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.MemorySegment;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SequencedMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * {@code model.safetensors.index.json}: maps each tensor to its file in the folder.
 *
 * <p>Source: huggingface_hub, serialization/_base.py. The metadata's total_size is optional, because some writers omit it (DeepSeek's cast
 * script leaves the metadata empty), and unchecked, because some writers count another element type.
 *
 * @param weightMap file name by tensor name, in the order of the index
 * @param totalSize bytes of all tensors without headers, as claimed by the index
 */
public record ShardIndex(Map<String, String> weightMap, OptionalLong totalSize) {
    /** Name of the index in a folder. */
    public static final String FILE_NAME = "model.safetensors.index.json";

    /** Longest index in bytes; as many tensors as one header may have. */
    public static final long MAX_INDEX_BYTES = HeaderLimits.MAX_HEADER_BYTES;

    private static final JsonFactory JSON = JsonFactory.builder()
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNestingDepth(HeaderLimits.MAX_NESTING)
                    .maxNameLength(HeaderLimits.MAX_NAME_CHARS)
                    .maxStringLength(HeaderLimits.MAX_NAME_CHARS)
                    .build())
            .build();

    public ShardIndex {
        weightMap = Collections.unmodifiableMap(new LinkedHashMap<>(weightMap));
    }

    /** The distinct files of the index, sorted, because an index lists tensors by name and not in the order of files. */
    public Set<String> shardNames() {
        // removes repetitions before sorting: few names, each a million times
        return Collections.unmodifiableSet(new TreeSet<>(new HashSet<>(weightMap.values())));
    }

    /**
     * Reads an index.
     *
     * @throws MalformedModelException when the index is not of the required form, is longer than {@link #MAX_INDEX_BYTES}, or names a
     *     tensor twice
     * @throws IOException when the file cannot be read
     */
    public static ShardIndex read(Path path) throws IOException {
        if (Files.size(path) > MAX_INDEX_BYTES) {
            throw LIMIT_EXCEEDED.broken(
                    "the index has " + Files.size(path) + " bytes, the limit is " + MAX_INDEX_BYTES, path.toString());
        }
        try (InputStreamReader reader = new InputStreamReader(
                        new BufferedInputStream(Files.newInputStream(path)), StandardCharsets.UTF_8.newDecoder());
                JsonParser parser = JSON.createParser(reader)) {
            return read(parser, path);
        } catch (CharacterCodingException e) {
            throw INVALID_INDEX.broken("the index is not UTF-8 text", path.toString(), e);
        } catch (StreamConstraintsException e) {
            throw LIMIT_EXCEEDED.broken(e.getOriginalMessage(), path.toString(), e);
        } catch (JsonProcessingException e) {
            throw INVALID_INDEX.broken("the index is not JSON: " + e.getOriginalMessage(), path.toString(), e);
        }
    }

    private static ShardIndex read(JsonParser parser, Path path) throws IOException {
        require(parser.nextToken() == JsonToken.START_OBJECT, "the index is not a JSON object", path);
        Map<String, String> weightMap = new LinkedHashMap<>();
        OptionalLong totalSize = OptionalLong.empty();
        boolean found = false;
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String field = parser.currentName();
            parser.nextToken();
            if (field.equals("weight_map")) {
                require(!found, "the index has two weight_maps", path);
                found = true;
                readWeightMap(parser, weightMap, path);
            } else if (field.equals("metadata") && parser.currentToken() == JsonToken.START_OBJECT) {
                totalSize = readTotalSize(parser);
            } else {
                parser.skipChildren();
            }
        }
        require(found, "the index has no weight_map", path);
        require(!weightMap.isEmpty(), "the weight_map of the index names no tensor", path);
        require(parser.nextToken() == null, "more text follows the index's object", path);
        return new ShardIndex(weightMap, totalSize);
    }

    private static void readWeightMap(JsonParser parser, Map<String, String> weightMap, Path path) throws IOException {
        require(parser.currentToken() == JsonToken.START_OBJECT, "weight_map is not an object", path);
        // Interns the file names: few names, each a million times.
        Map<String, String> files = new HashMap<>();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String tensor = parser.currentName();
            if (parser.nextToken() != JsonToken.VALUE_STRING) {
                throw INVALID_INDEX.broken("weight_map has no file name for '" + tensor + "'", path.toString());
            }
            String file = files.computeIfAbsent(parser.getText(), name -> name);
            if (weightMap.put(tensor, file) != null) {
                throw DUPLICATE_KEY.broken("weight_map has two entries '" + tensor + "'", path.toString());
            }
        }
    }

    /** The number, if it is a possible size. */
    private static OptionalLong readTotalSize(JsonParser parser) throws IOException {
        OptionalLong totalSize = OptionalLong.empty();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            boolean wanted = parser.currentName().equals("total_size");
            JsonToken value = parser.nextToken();
            if (wanted
                    && value == JsonToken.VALUE_NUMBER_INT
                    && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER
                    && parser.getLongValue() >= 0) {
                totalSize = OptionalLong.of(parser.getLongValue());
            }
            parser.skipChildren();
        }
        return totalSize;
    }

    private static void require(boolean holds, String otherwise, Path path) {
        if (!holds) {
            throw INVALID_INDEX.broken(otherwise, path.toString());
        }
    }

    /**
     * The paths of the shards by name. A name must denote a file in the index's own folder or below it, with slashes between its parts. A
     * link is followed if it stays there, or if the index itself is a link to the same other folder, as in the snapshots of Hugging Face's
     * download cache.
     *
     * @throws MalformedModelException when a shard is missing or lies elsewhere
     * @throws IOException when a link cannot be followed
     */
    public SequencedMap<String, Path> shardPaths(Path index) throws IOException {
        Path folder = index.toAbsolutePath().normalize().getParent();
        if (folder == null) {
            throw INVALID_INDEX.broken("the index lies in no folder", index.toString());
        }
        Path own = folder.toRealPath();
        Path linked = realFolder(index, folder);
        SequencedMap<String, Path> paths = new LinkedHashMap<>();
        for (String name : shardNames()) {
            requireInside(name, index);
            Path path = inFolder(folder, name, index);
            if (!Files.exists(path)) {
                throw MISSING_SHARD.broken("there is no file " + name + " that the index names", path.toString());
            }
            Path real = path.toRealPath();
            if (!real.startsWith(own) && !linked.equals(real.getParent())) {
                throw SHARD_OUTSIDE.broken(
                        "the shard " + name + " is a link to " + real + ", outside of its folder", path.toString());
            }
            paths.put(name, path);
        }
        return paths;
    }

    private static Path inFolder(Path folder, String name, Path index) {
        try {
            return folder.resolve(name);
        } catch (InvalidPathException e) { // half a surrogate pair, or a letter that the system's encoding lacks
            throw MISSING_SHARD.broken(
                    "the index names a shard that no file here can be called: " + e.getMessage(), index.toString(), e);
        }
    }

    private static Path realFolder(Path index, Path folder) throws IOException {
        Path parent = index.toRealPath().getParent();
        return parent == null ? folder.toRealPath() : parent;
    }

    private static void requireInside(String name, Path index) {
        // Checks the text, so that all systems agree: only on Windows, a backslash separates and a colon marks a drive.
        boolean plain = name.chars().noneMatch(c -> c == '\\' || c == ':' || Character.isISOControl(c));
        for (String part : name.split("/", -1)) {
            plain &= !part.isBlank() && !part.equals(".") && !part.equals("..");
        }
        if (!plain) {
            throw SHARD_OUTSIDE.broken(
                    "the index names the shard '" + name + "', not a file in its folder", index.toString());
        }
    }

    /**
     * Checks the index against the tensors of all its shards: the same ones, each only in the file that the index names.
     *
     * @param tensors names by file name
     * @throws MalformedModelException naming the first tensor that is missing, stale or in two shards
     */
    public void check(Map<String, List<String>> tensors, Path index) {
        Map<String, String> found = HashMap.newHashMap(weightMap.size());
        tensors.forEach((file, names) -> {
            for (String tensor : names) {
                String other = found.put(tensor, file);
                if (other != null) {
                    throw TENSOR_IN_TWO_SHARDS.broken(
                            "tensor '" + tensor + "' is in " + other + " and in " + file, index.toString());
                }
                if (!weightMap.containsKey(tensor)) {
                    throw STALE_TENSOR.broken(
                            "tensor '" + tensor + "' of " + file + " is not in the index", index.toString());
                }
            }
        });
        weightMap.forEach((tensor, file) -> {
            if (!file.equals(found.get(tensor))) {
                throw MISSING_TENSOR.broken(
                        "tensor '" + tensor + "' is not in " + file + " as the index says"
                                + (found.containsKey(tensor) ? ", but in " + found.get(tensor) : ""),
                        index.toString());
            }
        });
    }

    /**
     * Writes the index as Hugging Face's libraries do: indented by 2, keys sorted, total_size under metadata.
     *
     * @throws IOException when writing fails; an earlier file is unchanged then
     */
    public void write(Path path) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            DefaultIndenter indenter = new DefaultIndenter("  ", "\n");
            json.setPrettyPrinter(new DefaultPrettyPrinter(Separators.createDefaultInstance()
                            .withObjectFieldValueSpacing(Separators.Spacing.AFTER)
                            .withObjectEmptySeparator(""))
                    .withObjectIndenter(indenter));
            json.writeStartObject();
            json.writeObjectFieldStart("metadata");
            if (totalSize.isPresent()) {
                json.writeNumberField("total_size", totalSize.getAsLong());
            }
            json.writeEndObject();
            json.writeObjectFieldStart("weight_map");
            Map<String, String> sorted = new TreeMap<>(Surrogates::compareCodePoints);
            sorted.putAll(weightMap);
            for (Map.Entry<String, String> e : sorted.entrySet()) {
                json.writeStringField(e.getKey(), e.getValue());
            }
            json.writeEndObject();
            json.writeEndObject();
        }
        bytes.write('\n');
        try (AtomicFile file = AtomicFile.create(path)) {
            file.write(MemorySegment.ofArray(bytes.toByteArray()));
            file.commit();
        }
    }
}
