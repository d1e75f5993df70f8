package dev.octet.converter.trained;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.AuxiliaryFiles;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.model.Shard;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Writes a copy of a Hugging Face folder with trained weights: the source's tensors with the same names and shapes, {@code config.json}
 * with only the number type changed, and all other files.
 *
 * <p>Trained tensors come from their F32 masters, rounded once; other tensors are copied. A quantised source becomes plain, without scales
 * and without the configuration's quantisation entries. Copies of a tied weight in the source are omitted, as in transformers, because they
 * would be untrained.
 */
public final class HuggingFaceFolder {
    private static final List<String> QUANTISATION = List.of("quantization_config", "compression_config");
    private static final List<String> TYPE_KEYS = List.of("dtype", "torch_dtype");
    private static final Map<DType, String> TYPE_NAMES =
            Map.of(DType.F32, "float32", DType.BF16, "bfloat16", DType.F16, "float16");

    /** Elements that are cast in one step. */
    private static final int TILE = 1 << 16;
    /** Number of bytes compared to decide whether two tensors are copies. */
    private static final long COMPARED_BYTES = 1 << 16;

    private final Checkpoint source;
    private final StoredCheckpoint stored;
    private final Map<String, Tensor> masters;
    private final Set<String> unread;
    private final Optional<DType> type;

    /**
     * Combines a folder with the results of training.
     *
     * @param stored the quantised weights of the source
     * @param masters F32 by the name of the tensor, in the source's shape
     * @param unread tensors of the source that the model does not compute with
     * @param type of all floats; empty to keep each tensor's type in the source; quantised tensors then get the configuration's type
     */
    public HuggingFaceFolder(
            Checkpoint source,
            StoredCheckpoint stored,
            Map<String, Tensor> masters,
            Set<String> unread,
            Optional<DType> type) {
        this.source = source;
        this.stored = stored;
        this.masters = Map.copyOf(masters);
        this.unread = Set.copyOf(unread);
        this.type = type;
    }

    /**
     * The result of writing.
     *
     * @param type of most of the weights' bytes
     * @param dropped copies of tied weights in the source that were omitted
     */
    public record Written(DType type, List<String> dropped) {
        public Written {
            dropped = List.copyOf(dropped);
        }
    }

    /** The result that {@link #write} would give, without writing. */
    public Written plan() throws IOException {
        List<String> dropped = new ArrayList<>();
        Map<DType, Long> bytes = new LinkedHashMap<>();
        specs(dropped).stream()
                .filter(s -> TrainedWeights.isFloat(s.dtype()))
                .forEach(s -> bytes.merge(s.dtype(), s.byteSize(), Long::sum));
        DType most = bytes.entrySet().stream()
                .max(Comparator.comparingLong(Map.Entry::getValue))
                .map(Map.Entry::getKey)
                .orElse(DType.F32);
        return new Written(most, dropped);
    }

    /**
     * Writes the folder all or nothing, see {@link WholeFolder}.
     *
     * @param shardBytes largest file of tensors
     * @param force overwrite the model that is in {@code output}
     * @throws InvalidOptionException when something is in the way of the output
     * @throws InvalidDataException when a weight is not finite, or becomes infinite in its type
     * @throws IOException when reading or writing fails; nothing is left then
     */
    public Written write(Path output, long shardBytes, boolean force) throws IOException {
        RunPaths.none()
                .writing("--output", output)
                .reading("the model that the run was started with", source.folder())
                .requireApart();
        WholeFolder.requireFree(output, force);
        Written written = plan();
        WholeFolder.write(output, made -> {
            SafetensorsWriter.writeFolder(
                    made, specs(new ArrayList<>()), Map.of("format", "pt"), shardBytes, this::content);
            AuxiliaryFiles.of(
                            source.folder(),
                            source.shards().stream().map(Shard::name).collect(Collectors.toSet()))
                    .copyTo(made);
            writeConfig(made.resolve(ModelConfig.FILE_NAME));
        });
        return written;
    }

    /** Every tensor of the target, in the source's order. */
    private List<TensorSpec> specs(List<String> dropped) throws IOException {
        List<TensorSpec> specs = new ArrayList<>();
        for (TensorSpec spec : stored.plain().values()) {
            if (isCopy(spec)) {
                dropped.add(spec.name());
            } else {
                DType to = TrainedWeights.isFloat(spec.dtype()) ? type.orElse(spec.dtype()) : spec.dtype();
                specs.add(new TensorSpec(spec.name(), to, spec.shape()));
            }
        }
        WeightReader reader = WeightReader.of(source, stored);
        for (String weight : stored.weights().keySet()) {
            specs.add(new TensorSpec(weight, type.orElseGet(this::configuredType), reader.shape(weight)));
        }
        for (Map.Entry<String, Tensor> master : masters.entrySet()) {
            requireShape(master.getKey(), master.getValue().shape());
        }
        return specs;
    }

    private void requireShape(String name, Shape trained) {
        TensorSpec plain = stored.plain().get(name);
        Shape found = plain != null
                ? plain.shape()
                : stored.weights().containsKey(name)
                        ? WeightReader.of(source, stored).shape(name)
                        : null;
        if (found == null || !trained.equals(found)) {
            throw new InvalidDataException(
                    "the run has weight '" + name + "' " + trained + ", the model has "
                            + (found == null ? "no weight of this name" : found),
                    source.folder().toString(),
                    "export with the model that the run was started with");
        }
    }

    private DType configuredType() {
        ObjectNode config = source.config().orElse(null);
        if (config != null) {
            for (String key : TYPE_KEYS) {
                String named = config.path(key).asText("").replace("torch.", "");
                for (Map.Entry<DType, String> known : TYPE_NAMES.entrySet()) {
                    if (known.getValue().equals(named.toLowerCase(Locale.ROOT))) {
                        return known.getKey();
                    }
                }
            }
        }
        return DType.BF16; // the usual type before quantisation
    }

    /** Whether the first bytes of a tensor that the model does not read equal those of a trained tensor. */
    private boolean isCopy(TensorSpec spec) throws IOException {
        if (!unread.contains(spec.name())) {
            return false;
        }
        StoredTensor own = source.tensor(spec.name());
        for (String name : masters.keySet()) {
            StoredTensor other = source.tensor(name);
            if (own != null
                    && other != null
                    && other.dtype() == own.dtype()
                    && other.shape().equals(own.shape())
                    && sameBeginning(own, other)) {
                return true;
            }
        }
        return false;
    }

    private boolean sameBeginning(StoredTensor a, StoredTensor b) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            long bytes = Math.min(COMPARED_BYTES, a.spec().byteSize());
            MemorySegment first = arena.allocate(Math.max(1, bytes));
            MemorySegment second = arena.allocate(Math.max(1, bytes));
            source.read(a, 0, first.asSlice(0, bytes));
            source.read(b, 0, second.asSlice(0, bytes));
            return first.mismatch(second) < 0;
        }
    }

    private void content(TensorSpec spec, ByteSink sink) throws IOException {
        Tensor master = masters.get(spec.name());
        StoredTensor plain = stored.plain().containsKey(spec.name()) ? source.tensor(spec.name()) : null;
        if (master == null && plain != null && plain.dtype() == spec.dtype()) {
            copy(plain, sink);
        } else if (master != null) {
            cast(master, spec, sink);
        } else {
            try (Arena arena = Arena.ofConfined()) {
                cast(widened(spec, arena), spec, sink);
            }
        }
    }

    private void copy(StoredTensor tensor, ByteSink sink) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment tile = arena.allocate(4L * TILE);
            for (long from = 0; from < tensor.spec().byteSize(); from += tile.byteSize()) {
                MemorySegment part =
                        tile.asSlice(0, Math.min(tile.byteSize(), tensor.spec().byteSize() - from));
                source.read(tensor, from, part);
                sink.write(part);
            }
        }
    }

    private Tensor widened(TensorSpec spec, Arena arena) throws IOException {
        Tensor values = Tensor.allocate(arena, new TensorSpec(spec.name(), DType.F32, spec.shape()));
        long rows = spec.shape().rank() < 2
                ? 1
                : spec.shape().elementCount() / spec.shape().dim(-1);
        WeightReader.of(source, stored).read(spec.name(), 0, rows, values.bytes());
        return values;
    }

    /** Casts by rounding to nearest even. */
    private static void cast(Tensor from, TensorSpec spec, ByteSink sink) throws IOException {
        long width = spec.dtype().bits() / 8;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment tile = arena.allocate(width * TILE, 8);
            long count = spec.shape().elementCount();
            for (long start = 0; start < count; start += TILE) {
                int n = (int) Math.min(TILE, count - start);
                for (int i = 0; i < n; i++) {
                    float x = Floats.get(from.dtype(), from.bytes(), start + i);
                    Floats.set(spec.dtype(), tile, i, x);
                    if (!Float.isFinite(Floats.get(spec.dtype(), tile, i))) {
                        throw TrainedWeights.notFinite(spec, start + i, x);
                    }
                }
                sink.write(tile.asSlice(0, n * width));
            }
        }
    }

    /** Writes {@code config.json}, byte for byte if nothing changes. */
    private void writeConfig(Path to) throws IOException {
        Path from = source.folder().resolve(ModelConfig.FILE_NAME);
        ObjectNode config = source.config()
                .orElseThrow(() -> new MalformedModelException(
                        "there is no config.json", source.folder().toString(), "restore the folder"));
        ObjectNode changed = changed(config);
        if (changed == null) {
            Files.copy(from, to);
        } else {
            ModelConfig.write(to, changed);
        }
    }

    private @Nullable ObjectNode changed(ObjectNode config) {
        ObjectNode copy = unquantised(config);
        type.ifPresent(t -> setType(copy, t));
        return copy.equals(config) ? null : copy;
    }

    /** A copy of a configuration without its quantisation entries. */
    public static ObjectNode unquantised(ObjectNode config) {
        ObjectNode copy = config.deepCopy();
        copy.remove(QUANTISATION);
        return copy;
    }

    /**
     * Sets the number type under the configuration's own key; without one under {@code torch_dtype}, which every version of transformers
     * reads.
     */
    public static void setType(ObjectNode config, DType type) {
        List<String> present = TYPE_KEYS.stream().filter(config::has).toList();
        for (String key : present.isEmpty() ? List.of("torch_dtype") : present) {
            config.put(key, TYPE_NAMES.get(type));
        }
    }
}
