package dev.octet.formats.dcp;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.pickle.PickleLimits;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Global;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Item;
import dev.octet.formats.pickle.PickleValue.None;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import dev.octet.formats.pickle.Unpickler;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.torch.StateDict;
import dev.octet.formats.torch.TorchTypes;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * {@code .metadata} of a distributed checkpoint. Source: torch/distributed/checkpoint/{metadata,filesystem,default_planner}.py of torch 2.13.
 *
 * @param tensors in its order
 * @param extraStates what is no tensor and is called {@link ExtraState#NAME}, by key; each is one chunk
 */
record DcpMetadata(List<DcpTensor> tensors, Map<String, DcpTensor.Chunk> extraStates) {
    /** Name in the folder. */
    static final String FILE_NAME = ".metadata";

    /** Most chunks of one tensor; as many ranks have not written one checkpoint. */
    static final int MAX_CHUNKS = 1 << 14;

    private static final Pattern PLAIN_NAME = Pattern.compile("[\\w.+=@ -]{1,255}");
    private static final String FIX = "copy the folder again, or save it again";

    /**
     * Reads it.
     *
     * @throws MalformedModelException when it contradicts itself
     * @throws UnsupportedModelException when it names what no checkpoint needs, or chunks are compressed
     * @throws IOException when it cannot be read
     */
    static DcpMetadata read(Path file) throws IOException {
        if (Files.size(file) > PickleLimits.DEFAULT.maxBytes()) {
            throw new MalformedModelException(
                    "the file has " + Files.size(file) + " bytes, at most " + PickleLimits.DEFAULT.maxBytes()
                            + " are read",
                    file.toString(),
                    FIX);
        }
        return new Reader(file.toString()).read(Unpickler.read(Files.readAllBytes(file), file.toString()));
    }

    private static final class Reader {
        private final String where;
        /** Chunks by key, with where they lie. */
        private final Map<String, Map<List<Long>, Instance>> stored = new HashMap<>();

        Reader(String where) {
            this.where = where;
        }

        DcpMetadata read(PickleValue root) {
            if (!(root instanceof Instance metadata) || !metadata.type().name().endsWith("Metadata")) {
                throw broken("the file describes no checkpoint");
            }
            Dict state = dict(metadata.field("state_dict_metadata"), "state_dict_metadata");
            Dict paths = metadata.field("planner_data") instanceof Dict d ? d : null;
            for (Item item :
                    dict(metadata.field("storage_data"), "storage_data").items()) {
                if (!(item.key() instanceof Instance index)
                        || !(index.field("fqn") instanceof Text(String key))
                        || !(item.value() instanceof Instance info)) {
                    throw broken("an entry of storage_data is no place of a chunk");
                }
                List<Long> offset = index.field("offset") instanceof Sequence s ? numbers(s, key) : List.of();
                Instance other =
                        stored.computeIfAbsent(key, _ -> new HashMap<>()).put(offset, info);
                if (other != null) {
                    throw broken("tensor '" + key + "' has two chunks at " + offset);
                }
            }
            List<DcpTensor> tensors = new ArrayList<>();
            Map<String, DcpTensor.Chunk> extraStates = new LinkedHashMap<>();
            for (Item item : state.items()) {
                if (!(item.key() instanceof Text(String key)) || !(item.value() instanceof Instance entry)) {
                    throw broken("an entry of state_dict_metadata is no tensor and no object");
                }
                if (entry.type().name().equals("TensorStorageMetadata")) {
                    tensors.add(tensor(key, entry, paths == null ? null : paths.get(key)));
                } else if (key.contains("." + ExtraState.NAME)) {
                    extraStates.put(key, chunk(key, List.of(), List.of()));
                }
            }
            return new DcpMetadata(List.copyOf(tensors), Collections.unmodifiableMap(extraStates));
        }

        private DcpTensor tensor(String key, Instance entry, @Nullable PickleValue path) {
            List<Long> dims = numbers(entry.field("size"), key);
            Shape shape;
            try {
                shape = Shape.of(dims.stream().mapToLong(d -> d).toArray());
            } catch (ArithmeticException | IllegalArgumentException e) {
                throw new MalformedModelException(
                        "tensor '" + key + "' has the impossible shape " + dims, where, FIX, e);
            }
            if (!(entry.field("chunks") instanceof Sequence chunks)
                    || chunks.items().size() > MAX_CHUNKS) {
                throw broken("tensor '" + key + "' has no list of at most " + MAX_CHUNKS + " chunks");
            }
            List<DcpTensor.Chunk> found = new ArrayList<>();
            for (PickleValue chunk : chunks.items()) {
                if (!(chunk instanceof Instance c)) {
                    throw broken("tensor '" + key + "' has a chunk that is none");
                }
                List<Long> offsets = numbers(c.field("offsets"), key);
                List<Long> sizes = numbers(c.field("sizes"), key);
                found.add(chunk(key, offsets, sizes));
            }
            return new DcpTensor(
                    key, keys(key, path), dtype(key, entry.field("properties")), shape, List.copyOf(found));
        }

        private DcpTensor.Chunk chunk(String key, List<Long> offsets, List<Long> sizes) {
            Map<List<Long>, Instance> places = stored.getOrDefault(key, Map.of());
            Instance info = places.get(offsets);
            if (info == null && places.size() == 1 && offsets.stream().allMatch(o -> o == 0)) {
                info = places.get(List.of()); // a tensor that is not cut may have no offset
            }
            if (info == null) {
                throw broken("the chunk of tensor '" + key + "' at " + offsets + " lies in no file");
            }
            if (info.field("transform_descriptors") instanceof Sequence s
                    && !s.items().isEmpty()) {
                throw new UnsupportedModelException(
                        "tensor '" + key + "' is stored through a transform ("
                                + text(s.items().getFirst()) + "), so it cannot be read by position",
                        where,
                        "save the checkpoint without extensions of the storage writer");
            }
            String file = text(info.field("relative_path"));
            if (!PLAIN_NAME.matcher(file).matches() || file.equals(".") || file.equals("..")) {
                throw broken("tensor '" + key + "' lies in '" + file + "', which is no file of the folder");
            }
            long position = number(info.field("offset"), key);
            long length = number(info.field("length"), key);
            if (position < 0 || length < 0 || position > Long.MAX_VALUE - length) {
                throw broken("the chunk of tensor '" + key + "' at " + offsets + " has bytes " + position + " and "
                        + length + " more");
            }
            return new DcpTensor.Chunk(offsets, sizes, file, position, length);
        }

        private static List<String> keys(String key, @Nullable PickleValue path) {
            if (!(path instanceof Sequence sequence) || sequence.items().isEmpty()) {
                return StateDict.Saved.ofKey(key, key).path();
            }
            return sequence.items().stream().map(Reader::text).toList();
        }

        private DType dtype(String key, @Nullable PickleValue properties) {
            PickleValue type = properties instanceof Instance p
                    ? p.state() instanceof Sequence s && !s.items().isEmpty()
                            ? s.items().getFirst()
                            : p.field("dtype")
                    : null;
            if (type instanceof Global global) {
                return TorchTypes.ofDtype(global)
                        .orElseThrow(() -> new UnsupportedModelException(
                                "tensor '" + key + "' has elements of a type that is not read: " + global.qualified(),
                                where,
                                "save it as another type"));
            }
            throw broken("tensor '" + key + "' has no type");
        }

        private Dict dict(@Nullable PickleValue value, String name) {
            if (value instanceof Dict dict) {
                return dict;
            }
            throw broken("the file has no " + name);
        }

        private List<Long> numbers(@Nullable PickleValue value, String key) {
            if (!(value instanceof Sequence sequence) || sequence.items().size() > 64) {
                throw broken("tensor '" + key + "' has a shape that is none");
            }
            List<Long> numbers = new ArrayList<>();
            for (PickleValue item : sequence.items()) {
                numbers.add(number(item, key));
            }
            return numbers;
        }

        private long number(@Nullable PickleValue value, String key) {
            if (value instanceof Int(BigInteger number) && number.bitLength() < Long.SIZE) {
                return number.longValue();
            }
            throw broken("tensor '" + key + "' has a size that is no number");
        }

        private static String text(@Nullable PickleValue value) {
            return switch (value) {
                case Text(String text) -> text;
                case Int(BigInteger number) -> number.toString();
                case null -> "";
                case None _ -> "";
                default -> "?";
            };
        }

        private MalformedModelException broken(String what) {
            return new MalformedModelException(what, where, FIX);
        }
    }
}
