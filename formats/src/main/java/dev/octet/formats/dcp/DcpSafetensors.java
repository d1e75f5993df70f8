package dev.octet.formats.dcp;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Pieces.Placed;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.safetensors.SafetensorsFormat;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.StateDict;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A distributed checkpoint in files of safetensors, one or several for each rank, whose metadata say where their tensors lie in the whole. Source:
 * torch/distributed/checkpoint/{hf_storage,_hf_utils}.py of torch 2.13.
 */
final class DcpSafetensors {
    private static final Pattern FILE = Pattern.compile("shard-(\\d{5,})-model-\\d{5,}-of-\\d{5,}\\.safetensors");
    private static final String SHARDING = "DCP_SHARDING_INFO";
    private static final String OFFSETS = "saved_offsets";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String FIX = "copy the folder again, or save it again";

    private DcpSafetensors() {}

    static boolean isOne(Path folder) throws IOException {
        return !files(folder).isEmpty();
    }

    private static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(f -> FILE.matcher(String.valueOf(f.getFileName())).matches())
                    .sorted()
                    .toList();
        }
    }

    /** A tensor as its parts say. */
    private static final class Growing {
        private final DType dtype;
        private final List<Placed> parts = new ArrayList<>();
        private final long[] size;

        Growing(DType dtype, int rank) {
            this.dtype = dtype;
            this.size = new long[rank];
        }
    }

    static PiecedShards shards(Path folder, Consumer<MalformedModelException> problems) throws IOException {
        List<Path> files = files(folder);
        requireAll(files, folder);
        Map<String, Growing> tensors = new LinkedHashMap<>();
        for (Path file : files) {
            for (Shard shard : new SafetensorsFormat().shards(file, problems).shards()) {
                JsonNode sharding = sharding(shard);
                for (ShardHeader.Entry e : shard.header().entries()) {
                    add(e, file, sharding, tensors);
                }
            }
        }
        List<StateDict.Saved<String>> saved = tensors.keySet().stream()
                .map(n -> new StateDict.Saved<>(List.of(n), n))
                .toList();
        StateDict<String> weights = StateDict.of(saved, folder.toString());
        List<Located> located = new ArrayList<>();
        weights.names().forEach((name, key) -> {
            Growing tensor = Objects.requireNonNull(tensors.get(key));
            try {
                Shape shape = Shape.of(tensor.size);
                Pieces pieces = Pieces.assembled(shape, tensor.dtype.bits() / Byte.SIZE, tensor.parts);
                located.add(new Located(new TensorSpec(name, tensor.dtype, shape), pieces));
            } catch (IllegalArgumentException | ArithmeticException e) {
                problems.accept(new MalformedModelException(
                        "tensor '" + key + "' cannot be put together: " + e.getMessage(), folder.toString(), FIX, e));
            }
        });
        return PiecedShards.of(files.getFirst(), located, weights.notes());
    }

    /** Nothing says how many ranks there were; but their numbers begin at 1 and none is left out. */
    private static void requireAll(List<Path> files, Path folder) {
        TreeSet<Long> ranks = new TreeSet<>();
        for (Path file : files) {
            Matcher name = FILE.matcher(String.valueOf(file.getFileName()));
            if (name.matches()) {
                ranks.add(Long.parseLong(name.group(1)));
            }
        }
        long expected = 1;
        for (long rank : ranks) {
            if (rank != expected) {
                throw new MalformedModelException(
                        "there is no file of shard " + expected + ", though there is one of shard " + ranks.last(),
                        folder.toString(),
                        "a rank's files are missing: copy them into the folder");
            }
            expected++;
        }
    }

    private static JsonNode sharding(Shard shard) {
        String text = shard.header().metadata().get(SHARDING);
        try {
            JsonNode json = text == null ? null : JSON.readTree(text);
            return json == null ? JSON.createObjectNode() : json;
        } catch (JsonProcessingException e) {
            throw new MalformedModelException(
                    SHARDING + " of the file is not JSON: " + e.getOriginalMessage(),
                    shard.path().toString(),
                    FIX,
                    e);
        }
    }

    private static void add(ShardHeader.Entry e, Path file, JsonNode sharding, Map<String, Growing> tensors) {
        TensorSpec spec = e.spec();
        long[] dims = spec.shape().toArray();
        JsonNode offsets = sharding.path(spec.name()).path(OFFSETS);
        if (!offsets.isMissingNode() && offsets.size() != dims.length) {
            throw broken(spec, file, "has " + offsets.size() + " offsets for the shape " + spec.shape());
        }
        Growing whole = tensors.computeIfAbsent(spec.name(), _ -> new Growing(spec.dtype(), dims.length));
        if (whole.dtype != spec.dtype()
                || whole.size.length != dims.length
                || spec.dtype().bits() % Byte.SIZE != 0) {
            throw broken(
                    spec, file, "has another type or other axes than in another file, or elements of less than a byte");
        }
        List<Long> from = new ArrayList<>();
        for (int k = 0; k < dims.length; k++) {
            JsonNode offset = offsets.path(k);
            if (!offset.isMissingNode() && (!offset.canConvertToLong() || offset.asLong() < 0)) {
                throw broken(spec, file, "has the offset " + offset);
            }
            from.add(offset.asLong(0));
            if (from.getLast() > Long.MAX_VALUE - dims[k]) {
                throw broken(spec, file, "has the offset " + offset);
            }
            whole.size[k] = Math.max(whole.size[k], from.getLast() + dims[k]);
        }
        if (whole.parts.size() == DcpMetadata.MAX_CHUNKS) {
            throw broken(spec, file, "has more than " + DcpMetadata.MAX_CHUNKS + " parts");
        }
        whole.parts.add(new Placed(Pieces.of(file, e.position(), spec.dtype(), spec.shape()), from));
    }

    private static MalformedModelException broken(TensorSpec spec, Path file, String what) {
        return new MalformedModelException("tensor '" + spec.name() + "' " + what, file.toString(), FIX);
    }
}
