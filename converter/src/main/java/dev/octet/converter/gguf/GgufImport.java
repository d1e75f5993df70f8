package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.converter.gguf.GgufFamily.Trait;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.ggml.GgmlDecode;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;

/**
 * A GGUF file as a Hugging Face folder: {@code config.json}, safetensors files, tokenizer. Blocks are decoded row by row, so memory does not grow
 * with the model.
 */
public final class GgufImport implements AutoCloseable {
    private static final Map<DType, String> TYPE_NAMES =
            Map.of(DType.F32, "float32", DType.BF16, "bfloat16", DType.F16, "float16");

    /** Bytes of a row that are decoded at once, at least one row. */
    private static final int TILE = 1 << 18;

    private final Arena arena;
    private final GgufFile file;
    private final GgufKeys keys;
    private final GgufFamily family;
    private final Set<String> nvfp4;
    private final Map<String, Source> sources = new LinkedHashMap<>();

    /** Tensors that a folder of floats has no place for: static scales of what matrices are multiplied with. */
    private int inputScales;

    /** Where a parameter comes from; {@code upper} multiplies the scales of NVFP4's blocks, 1 for others. */
    private record Source(GgufHeader.Entry entry, LongUnaryOperator rowInFile, float offset, float upper) {
        /** Decodes elements of its tensor, its upper scale included. */
        void decode(MemorySegment blocks, long from, int count, float[] into) {
            if (upper == 1) {
                GgmlDecode.decode(entry.tensor().type(), blocks, from, count, into);
            } else {
                GgmlDecode.decodeNvfp4(blocks, from, count, upper, into);
            }
        }
    }

    private GgufImport(Path path, Arena arena) throws IOException {
        this.arena = arena;
        this.file = GgufFile.open(path, arena);
        this.keys = new GgufKeys(file.header(), path.toString());
        String architecture = keys.requiredText(GgufKeys.ARCHITECTURE);
        this.family = GgufFamily.ofArchitecture(architecture)
                .orElseThrow(() -> new UnsupportedModelException(
                        "general.architecture is '" + architecture + "', which has no counterpart here",
                        path.toString(),
                        "known are " + GgufFamily.architectures()));
        this.nvfp4 = file.header().entries().stream()
                .map(GgufHeader.Entry::tensor)
                .filter(t -> t.type() == GgufType.NVFP4)
                .map(GgufTensor::name)
                .collect(Collectors.toUnmodifiableSet());
        match();
    }

    /**
     * Opens a file: its header is read and every tensor matched with a parameter.
     *
     * @throws UnsupportedModelException for an architecture or a type of tensors that is not known
     * @throws MalformedModelException when the file breaks a rule of its format, or has tensors that its architecture has not
     * @throws IOException when it is missing or cannot be read
     */
    public static GgufImport open(Path path) throws IOException {
        Arena arena = Arena.ofShared();
        try {
            return new GgufImport(path, arena);
        } catch (IOException | RuntimeException | Error e) {
            arena.close();
            throw e;
        }
    }

    private void match() {
        GgufNames names = new GgufNames(family);
        List<String> unknown = new ArrayList<>();
        Map<String, Float> uppers = uppers();
        for (GgufHeader.Entry e : file.header().entries()) {
            GgufTensor t = e.tensor();
            if (isScale(t)) {
                continue;
            }
            if (t.name().equals(GgufNames.ROPE_FACTORS)) {
                requireReadable(t);
                continue;
            }
            Optional<String> parameter = names.inModel(t.name());
            if (parameter.isEmpty()) {
                unknown.add(t.name());
                continue;
            }
            requireReadable(t);
            sources.put(parameter.get(), new Source(e, order(t), offset(t), uppers.getOrDefault(t.name(), 1f)));
        }
        if (!unknown.isEmpty()) {
            throw new UnsupportedModelException(
                    unknown.size() + " tensors are no parameters of '" + family.architecture() + "', as '"
                            + unknown.getFirst() + "'",
                    keys.where(),
                    "this variant of the architecture is not known; take the original model");
        }
        int layers = keys.size(family.architecture() + ".block_count");
        names.weights(layers)
                .filter(t -> names.inModel(t).filter(sources::containsKey).isEmpty())
                .findFirst()
                .ifPresent(t -> {
                    throw keys.malformed("the file of " + layers + " layers has no tensor '" + t + "'");
                });
    }

    /** Whether this is the upper scale of a matrix in NVFP4, or the scale of its inputs; of other types llama.cpp's files have none. */
    private boolean isScale(GgufTensor t) {
        return GgufNames.ofScale(t.name()).filter(nvfp4::contains).isPresent();
    }

    /** The upper scales of matrices in NVFP4, by the names of the matrices. */
    private Map<String, Float> uppers() {
        Map<String, Float> uppers = new LinkedHashMap<>();
        for (GgufHeader.Entry e : file.header().entries()) {
            GgufTensor t = e.tensor();
            if (!isScale(t)) {
                continue;
            }
            if (t.type() != GgufType.F32 || t.shape().elementCount() != 1) {
                throw keys.malformed("tensor '" + t.name() + "' is " + t.type() + " of shape " + t.shape()
                        + ", not the one F32 that a scale of a tensor is");
            }
            float[] one = new float[1];
            GgmlDecode.decode(GgufType.F32, file.bytes(e), 0, 1, one);
            if (GgufNames.isInputScale(t.name())) {
                inputScales++;
            } else if (one[0] >= Float.MIN_NORMAL && one[0] < Float.POSITIVE_INFINITY) {
                uppers.put(GgufNames.ofScale(t.name()).orElseThrow(), one[0]);
            } else {
                throw keys.malformed("the scale '" + t.name() + "' is " + one[0] + ", not positive, finite and normal");
            }
        }
        return uppers;
    }

    private void requireReadable(GgufTensor t) {
        int rank = t.shape().rank();
        boolean possible = t.name().equals(GgufNames.ROPE_FACTORS) ? rank == 1 : rank > 0;
        for (int d = 0; d < rank; d++) {
            possible &= t.shape().dim(d) > 0 && t.shape().dim(d) <= GgufKeys.MAX_SIZE;
        }
        if (!possible) {
            throw keys.malformed("tensor '" + t.name() + "' has the shape " + t.shape());
        }
        if (!GgmlDecode.TYPES.contains(t.type())) {
            throw new UnsupportedModelException(
                    "tensor '" + t.name() + "' is " + t.type() + ", which cannot be decoded here",
                    keys.where(),
                    "take a file in one of "
                            + GgmlDecode.TYPES.stream().map(Enum::name).collect(Collectors.joining(", ")));
        }
    }

    private LongUnaryOperator order(GgufTensor t) {
        boolean query = GgufNames.isQuery(t.name());
        if (!family.has(Trait.INTERLEAVED_ROTATION) || !(query || GgufNames.isKey(t.name()))) {
            return LongUnaryOperator.identity();
        }
        long rows = t.shape().dim(0); // of a bias, its elements
        String key = family.architecture() + ".attention.head_count";
        int heads = query || keys.whole(key + "_kv").isEmpty() ? keys.size(key) : keys.size(key + "_kv");
        if (rows % heads != 0 || rows / heads % 2 != 0) {
            throw keys.malformed("tensor '" + t.name() + "' has " + rows + " rows for " + heads + " heads");
        }
        return RowOrder.toFile(rows / heads);
    }

    private float offset(GgufTensor t) {
        return family.has(Trait.NORM_OFFSET) && GgufNames.isNorm(t.name()) ? -1 : 0;
    }

    /**
     * What the folder has, or would have.
     *
     * @param architecture {@code general.architecture}
     * @param type of all tensors of the folder
     * @param tensors their number
     * @param bytes of all of them
     * @param tokenizer whether there is one
     * @param notes what has changed on the way
     */
    public record Result(
            String architecture, DType type, int tensors, long bytes, boolean tokenizer, List<String> notes) {
        public Result {
            notes = List.copyOf(notes);
        }
    }

    /** The narrowest type that holds most of the file's tensors: BF16 where it has any or is quantised, F16 if that is all there is, else F32. */
    public DType usualType() {
        boolean f16 = false;
        for (Source s : sources.values()) {
            GgufType type = s.entry().tensor().type();
            if (type != GgufType.F32 && type != GgufType.F16) {
                return DType.BF16;
            }
            f16 |= type == GgufType.F16;
        }
        return f16 ? DType.F16 : DType.F32;
    }

    /**
     * What {@link #write} would give.
     *
     * @param type F32, BF16 or F16
     */
    public Result plan(DType type) {
        long bytes = 0;
        boolean rounds = false;
        for (TensorSpec spec : specs(type)) {
            GgufType from = source(spec.name()).entry().tensor().type();
            bytes += spec.byteSize();
            rounds |= type != DType.F32 && !from.name().equals(type.name()) && from != GgufType.F32;
        }
        List<String> notes = new ArrayList<>();
        if (rounds) {
            notes.add("decoded weights are rounded to " + type + " once more; --dtype fp32 keeps every value");
        }
        if (inputScales > 0) {
            notes.add(inputScales + " static scales of inputs are left out: the folder is not quantised");
        }
        if (!TokenizerImport.isIn(keys)) {
            notes.add("the file has no tokenizer");
        }
        return new Result(family.architecture(), type, sources.size(), bytes, TokenizerImport.isIn(keys), notes);
    }

    private List<TensorSpec> specs(DType type) {
        return sources.entrySet().stream()
                .map(e -> new TensorSpec(
                        e.getKey(), type, e.getValue().entry().tensor().shape()))
                .toList();
    }

    private Source source(String parameter) {
        Source source = sources.get(parameter);
        if (source == null) {
            throw new IllegalArgumentException("there is no parameter '" + parameter + "'");
        }
        return source;
    }

    /**
     * Writes the folder all or nothing.
     *
     * @param output its parent must exist
     * @param type F32, BF16 or F16
     * @throws UnsupportedModelException when the tokenizer is of a kind that is not known
     * @throws MalformedModelException when keys are missing or contradict each other
     * @throws InvalidDataException when a weight is not finite, or not in {@code type}
     * @throws IOException when reading or writing fails; nothing that was written is left then
     */
    public Result write(Path output, DType type) throws IOException {
        Result result = plan(type);
        ObjectNode config = config(type);
        Optional<TokenizerImport.Files> tokenizer =
                result.tokenizer() ? Optional.of(TokenizerImport.read(keys)) : Optional.empty();
        WholeFolder.write(output, made -> {
            SafetensorsWriter.writeFolder(
                    made,
                    specs(type),
                    Map.of("format", "pt"),
                    SafetensorsWriter.DEFAULT_SHARD_BYTES,
                    (spec, sink) -> decode(source(spec.name()), spec, sink));
            if (tokenizer.isPresent()) {
                ModelConfig.write(
                        made.resolve("tokenizer.json"), tokenizer.get().tokenizer());
                ModelConfig.write(
                        made.resolve("tokenizer_config.json"), tokenizer.get().config());
            }
            ModelConfig.write(made.resolve(ModelConfig.FILE_NAME), config);
        });
        return result;
    }

    /** {@code config.json} of the folder. */
    ObjectNode config(DType type) {
        Source embedding = sources.get("model.embed_tokens.weight");
        if (embedding == null || embedding.entry().tensor().shape().rank() != 2) {
            throw keys.malformed("there is no embedding of two dimensions");
        }
        long vocabulary = embedding.entry().tensor().shape().dim(0);
        ObjectNode config = new GgufConfig(family)
                .config(
                        keys,
                        Math.toIntExact(vocabulary),
                        !sources.containsKey("lm_head.weight"),
                        factors(),
                        String.valueOf(TYPE_NAMES.get(type)));
        if (family != GgufFamily.QWEN2) { // which always has biases of q, k and v
            config.put("attention_bias", hasBias("self_attn.o_proj") || hasBias("self_attn.q_proj"));
        }
        if (family == GgufFamily.LLAMA) {
            config.put("mlp_bias", hasBias("mlp.down_proj"));
        }
        return config;
    }

    private boolean hasBias(String module) {
        return sources.containsKey("model.layers.0." + module + ".bias");
    }

    private Optional<float[]> factors() {
        for (GgufHeader.Entry e : file.header().entries()) {
            if (e.tensor().name().equals(GgufNames.ROPE_FACTORS)) {
                float[] factors = new float[Math.toIntExact(e.tensor().shape().elementCount())];
                GgmlDecode.decode(e.tensor().type(), file.bytes(e), 0, factors.length, factors);
                return Optional.of(factors);
            }
        }
        return Optional.empty();
    }

    private void decode(Source source, TensorSpec spec, ByteSink sink) throws IOException {
        GgufTensor tensor = source.entry().tensor();
        MemorySegment blocks = file.bytes(source.entry());
        boolean vector = tensor.shape().rank() < 2;
        long cols = vector ? 1 : tensor.rowElements();
        long rows = cols == 0 ? 0 : tensor.shape().elementCount() / cols;
        if (vector) {
            decodeVector(source, spec, sink);
            return;
        }
        int width = spec.dtype().bits() / Byte.SIZE;
        int step = (int) Math.clamp(TILE / cols, 1, Math.max(1, rows));
        float[] row = new float[Math.toIntExact(cols)];
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment tile = scratch.allocate(step * cols * width, 64);
            for (long first = 0; first < rows; first += step) {
                long count = Math.min(step, rows - first);
                for (long r = 0; r < count; r++) {
                    long from = source.rowInFile().applyAsLong(first + r) * cols;
                    source.decode(blocks, from, row.length, row);
                    put(row, source.offset(), spec, tile, r * cols);
                }
                sink.write(tile.asSlice(0, count * cols * width));
            }
        }
    }

    /** Of one dimension: its elements are rows. */
    private void decodeVector(Source source, TensorSpec spec, ByteSink sink) throws IOException {
        int count = Math.toIntExact(spec.shape().elementCount());
        float[] stored = new float[count];
        source.decode(file.bytes(source.entry()), 0, count, stored);
        float[] ordered = new float[count];
        for (int i = 0; i < count; i++) {
            ordered[i] = stored[(int) source.rowInFile().applyAsLong(i)];
        }
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment bytes = scratch.allocate(Math.max(1, spec.byteSize()), 64);
            put(ordered, source.offset(), spec, bytes, 0);
            sink.write(bytes.asSlice(0, spec.byteSize()));
        }
    }

    private static void put(float[] values, float offset, TensorSpec spec, MemorySegment into, long at) {
        for (int i = 0; i < values.length; i++) {
            float v = offset == 0 ? values[i] : values[i] + offset;
            if (!Float.isFinite(v)) {
                throw new InvalidDataException(
                        "element " + (at + i) + " is " + v,
                        "tensor '" + spec.name() + "'",
                        "the file is damaged: download or convert it again");
            }
            Floats.set(spec.dtype(), into, at + i, v);
            if (!Float.isFinite(Floats.get(spec.dtype(), into, at + i))) {
                boolean f16 = spec.dtype() == DType.F16;
                throw new InvalidDataException(
                        "an element is " + v + ", " + (f16 ? "F16 ends at 65504" : "BF16 ends at 3.39e38"),
                        "tensor '" + spec.name() + "'",
                        f16 ? "give --dtype bf16" : "give --dtype fp32");
            }
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
