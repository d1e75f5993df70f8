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
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.ggml.GgmlDecode;
import dev.octet.quant.ggml.Nvfp4Blocks;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutContents;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
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

    /** Static scales of what matrices in NVFP4 are multiplied with, by the names of the matrices; a folder of floats has no place for them. */
    private final Map<String, Float> inputs = new LinkedHashMap<>();

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
            if (one[0] >= Float.MIN_NORMAL && one[0] < Float.POSITIVE_INFINITY) {
                (GgufNames.isInputScale(t.name()) ? inputs : uppers)
                        .put(GgufNames.ofScale(t.name()).orElseThrow(), one[0]);
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
        if (!inputs.isEmpty()) {
            notes.add(inputs.size() + " static scales of inputs are left out: the folder is not quantised");
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
        write(
                output,
                result.tokenizer(),
                specs(type),
                config(type),
                Map.of(),
                (spec, sink) -> decode(source(spec.name()), spec, sink));
        return result;
    }

    /** A folder all or nothing; {@code others} are JSON files beside its configuration. */
    private void write(
            Path output,
            boolean withTokenizer,
            List<TensorSpec> specs,
            ObjectNode config,
            Map<String, ObjectNode> others,
            SafetensorsWriter.Content content)
            throws IOException {
        Optional<TokenizerImport.Files> tokenizer =
                withTokenizer ? Optional.of(TokenizerImport.read(keys)) : Optional.empty();
        WholeFolder.write(output, made -> {
            SafetensorsWriter.writeFolder(
                    made, specs, Map.of("format", "pt"), SafetensorsWriter.DEFAULT_SHARD_BYTES, content);
            for (Map.Entry<String, ObjectNode> other : others.entrySet()) {
                ModelConfig.write(made.resolve(other.getKey()), other.getValue());
            }
            if (tokenizer.isPresent()) {
                ModelConfig.write(
                        made.resolve("tokenizer.json"), tokenizer.get().tokenizer());
                ModelConfig.write(
                        made.resolve("tokenizer_config.json"), tokenizer.get().config());
            }
            ModelConfig.write(made.resolve(ModelConfig.FILE_NAME), config);
        });
    }

    /**
     * What {@link #write(Path, DType, Layout)} would give.
     *
     * @param type of tensors that are not in NVFP4: F32, BF16 or F16
     * @throws UnsupportedModelException when nothing in the file is NVFP4, or the layout has none
     */
    public Result plan(DType type, Layout layout) {
        return quantized(type, layout).result();
    }

    /**
     * Writes a folder whose matrices in NVFP4 keep their codes and scales, in a layout of quantised checkpoints, all or nothing.
     *
     * @param output its parent must exist
     * @param type of the other tensors: F32, BF16 or F16
     * @throws UnsupportedModelException when nothing in the file is NVFP4, the layout has none, or the tokenizer is of a kind that is not known
     * @throws MalformedModelException when keys are missing or contradict each other
     * @throws InvalidDataException when a weight is not finite or not in {@code type}, or a scale of a block is none of E4M3's
     * @throws IOException when reading or writing fails; nothing that was written is left then
     */
    public Result write(Path output, DType type, Layout layout) throws IOException {
        QuantizedFolder folder = quantized(type, layout);
        ObjectNode config = config(type);
        Map<String, ObjectNode> others = layout.configure(config, folder.contents());
        write(output, folder.result().tokenizer(), folder.specs(), config, others, folder::write);
        return folder.result();
    }

    private QuantizedFolder quantized(DType type, Layout layout) {
        List<TensorSpec> specs = specs(type);
        List<TensorSpec> matrices = specs.stream()
                .filter(s -> source(s.name()).entry().tensor().type() == GgufType.NVFP4)
                .toList();
        boolean fixed = inputs.size() == matrices.size();
        LayoutOptions options = LayoutOptions.defaults().withStaticInputs(fixed);
        OperandSpec scheme = layout.scheme(Recipes.NVFP4, options)
                .filter(_ -> !matrices.isEmpty())
                .orElseThrow(() -> new UnsupportedModelException(
                        matrices.isEmpty()
                                ? "the file is GGUF without a matrix in NVFP4, the only type that goes into a layout"
                                        + " as it is"
                                : "the file is GGUF in NVFP4, which layout " + layout.name() + " has not",
                        keys.where(),
                        "make a folder of it: octet convert FILE -o DIR --target huggingface"));
        Map<String, StoredWeight> placed = new LinkedHashMap<>();
        matrices.forEach(m -> placed.put(m.name(), layout.place(m.name(), m.shape(), scheme, options)));
        List<String> kept = specs.stream()
                .filter(s -> s.shape().rank() == 2
                        && !placed.containsKey(s.name())
                        && !s.name().equals("model.embed_tokens.weight"))
                .map(s -> StoredWeight.moduleOf(s.name()))
                .toList();
        LayoutContents contents =
                new LayoutContents(Recipes.NVFP4, options, List.copyOf(placed.values()), kept, AttentionScheme.NONE);
        return new QuantizedFolder(type, specs, placed, contents);
    }

    /** A folder with matrices in NVFP4. */
    private final class QuantizedFolder {
        private final Map<String, StoredWeight> placed;
        private final LayoutContents contents;
        private final List<TensorSpec> specs = new ArrayList<>();
        private final Map<String, StoredWeight> owners = new LinkedHashMap<>();
        private final DType type;

        QuantizedFolder(
                DType type, List<TensorSpec> parameters, Map<String, StoredWeight> placed, LayoutContents contents) {
            this.type = type;
            this.placed = placed;
            this.contents = contents;
            for (TensorSpec parameter : parameters) {
                StoredWeight weight = placed.get(parameter.name());
                List<TensorSpec> tensors = weight == null ? List.of(parameter) : weight.tensors();
                specs.addAll(tensors);
                if (weight != null) {
                    tensors.forEach(t -> owners.put(t.name(), weight));
                }
            }
        }

        List<TensorSpec> specs() {
            return specs;
        }

        LayoutContents contents() {
            return contents;
        }

        Result result() {
            List<String> notes = new ArrayList<>();
            notes.add(placed.size() + " matrices in NVFP4 keep their codes and scales");
            long inexact = placed.values().stream()
                    .filter(w ->
                            w.globalScale() != null && !isExact(source(w.name()).upper(), w.globalScale()))
                    .count();
            if (inexact > 0) {
                notes.add("the upper scales of " + inexact
                        + " matrices have no exact inverse, which the layout wants: values differ in the last bits");
            }
            boolean fixed = contents.options().staticInputs();
            if (!fixed && !inputs.isEmpty()) {
                notes.add(inputs.size() + " static scales of inputs are left out: other matrices have none");
            }
            boolean tokenizer = TokenizerImport.isIn(keys);
            if (!tokenizer) {
                notes.add("the file has no tokenizer");
            }
            return new Result(
                    family.architecture(),
                    type,
                    specs.size(),
                    specs.stream().mapToLong(TensorSpec::byteSize).sum(),
                    tokenizer,
                    notes);
        }

        /** Whether readers of the layout compute the products that ggml's scales have. */
        private static boolean isExact(float upper, ScaleTensor global) {
            if (global.direction() == ScaleTensor.Direction.MULTIPLIER) {
                return true;
            }
            for (int code = 0; code <= Nvfp4Blocks.LARGEST_SCALE; code++) {
                float block = Float8Format.E4M3FN.decode(code);
                if (block / (1 / upper) != block * upper) {
                    return false;
                }
            }
            return true;
        }

        void write(TensorSpec spec, ByteSink sink) throws IOException {
            StoredWeight weight = owners.get(spec.name());
            if (weight == null) {
                decode(source(spec.name()), spec, sink);
                return;
            }
            Source source = source(weight.name());
            ScaleTensor global = weight.globalScale();
            ScaleTensor input = weight.inputScale();
            if (global != null && spec.equals(global.spec())) {
                one(source.upper(), global, sink);
            } else if (input != null && spec.equals(input.spec())) {
                one(inputs.getOrDefault(source.entry().tensor().name(), 1f), input, sink);
            } else {
                unpack(source, spec.equals(weight.data()), sink);
            }
        }

        private static void one(float multiplier, ScaleTensor scale, ByteSink sink) throws IOException {
            float value = scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / multiplier : multiplier;
            MemorySegment bytes = MemorySegment.ofArray(new byte[Float.BYTES]);
            bytes.set(Tensor.F32_LE, 0, value);
            sink.write(bytes);
        }

        /** The codes of a matrix, or else its scales, row by row in the order of the model. */
        private void unpack(Source source, boolean wantsCodes, ByteSink sink) throws IOException {
            GgufTensor tensor = source.entry().tensor();
            MemorySegment all = file.bytes(source.entry());
            long cols = tensor.rowElements();
            long rowBytes = GgufType.NVFP4.bytes(cols);
            MemorySegment codes = MemorySegment.ofArray(new byte[Math.toIntExact(cols / 2)]);
            MemorySegment scales = MemorySegment.ofArray(new byte[Math.toIntExact(cols / 16)]);
            for (long r = 0; r < tensor.shape().dim(0); r++) {
                MemorySegment row = all.asSlice(source.rowInFile().applyAsLong(r) * rowBytes, rowBytes);
                Nvfp4Blocks.unpack(row, cols / GgufType.NVFP4.blockElements(), codes, scales);
                for (long i = 0; !wantsCodes && i < scales.byteSize(); i++) {
                    int code = scales.get(ValueLayout.JAVA_BYTE, i) & 0xff;
                    if (code > Nvfp4Blocks.LARGEST_SCALE) {
                        throw new InvalidDataException(
                                "a scale of row " + r + " has the code " + code + ", which only ggml reads as a number",
                                "tensor '" + tensor.name() + "'",
                                "make a folder of floats: octet convert FILE -o DIR --target huggingface");
                    }
                }
                sink.write(wantsCodes ? codes : scales);
            }
        }
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
