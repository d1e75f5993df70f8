package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.ByteCounter;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.checkpoint.TileScratch;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.converter.gguf.GgufFamily.Trait;
import dev.octet.converter.hf.RotaryFactors;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufFileType;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufValue;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.ggml.GgmlEncode;
import dev.octet.quant.ggml.Nvfp4Blocks;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * A Hugging Face checkpoint, plain or quantised in any layout, as a GGUF file that llama.cpp loads. Rows are read, dequantised and encoded tile by
 * tile, so memory does not grow with the model.
 */
public final class GgufExport {
    private static final int QUANTIZATION_VERSION = 2;

    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final ObjectNode config;
    private final GgufFamily family;
    private final GgufType type;
    private final GgufConfig configuration;
    private final SequencedMap<GgufTensor, String> parameters = new LinkedHashMap<>();
    private final List<String> notes = new ArrayList<>();
    private final List<String> keptNotes = new ArrayList<>();
    private final Optional<float[]> factors;
    private final Nvfp4 nvfp4;
    private final int headSize;
    private final int vocabulary;

    /** What becomes of weights that are in NVFP4 already. */
    public enum Nvfp4 {
        /** Their codes and scales go into the file bit by bit, whatever the type of other matrices. */
        KEPT,
        /** They are dequantised and rounded to the type, as all others. */
        ROUNDED
    }

    private GgufExport(Checkpoint checkpoint, StoredCheckpoint stored, GgufType type, Nvfp4 nvfp4) {
        this.checkpoint = checkpoint;
        this.stored = stored;
        this.type = type;
        this.nvfp4 = nvfp4;
        this.reader = WeightReader.of(checkpoint, stored);
        String where = where();
        this.config = checkpoint
                .config()
                .orElseThrow(() ->
                        new UnsupportedModelException("there is no config.json", where, "give the model's folder"));
        String modelType = config.path("model_type").asText("");
        this.family = GgufFamily.ofModelType(modelType)
                .orElseThrow(() -> new UnsupportedModelException(
                        "there is no GGUF for model_type '" + modelType + "' here",
                        where,
                        "known are " + GgufFamily.allModelTypes()));
        this.configuration = new GgufConfig(family);
        SequencedMap<String, GgufValue> keys = configuration.keys(config, where);
        this.headSize = keys.get(family.architecture() + ".attention.key_length") instanceof GgufValue.Whole w
                ? (int) w.number()
                : 0;
        if (config.path("rope_parameters").path("partial_rotary_factor").asDouble(1) != 1
                || config.path("partial_rotary_factor").asDouble(1) != 1) {
            throw new UnsupportedModelException(
                    "only a part of each head is rotated", where, "serve this model with another engine");
        }
        list();
        requireWhole(keys);
        this.vocabulary = vocabulary();
        requireHeads(keys);
        this.factors = RotaryFactors.of(config, headSize, where); // once it is known that heads have this size
    }

    /**
     * Reads the headers of a checkpoint and finds a place for each of its parameters.
     *
     * @param checkpoint stays open as long as this is used
     * @param stored its quantised weights
     * @param type of all matrices whose rows it divides; one of {@link GgmlEncode#TYPES}
     * @param nvfp4 what becomes of weights that are in NVFP4
     * @throws UnsupportedModelException when llama.cpp has no such architecture, would compute something else, or cannot hold a weight that is kept
     * @throws MalformedModelException when the configuration contradicts itself or the weights
     */
    public static GgufExport of(Checkpoint checkpoint, StoredCheckpoint stored, GgufType type, Nvfp4 nvfp4) {
        return new GgufExport(checkpoint, stored, type, nvfp4);
    }

    /** The same, keeping weights in NVFP4 where that is the type. */
    public static GgufExport of(Checkpoint checkpoint, StoredCheckpoint stored, GgufType type) {
        return of(checkpoint, stored, type, type == GgufType.NVFP4 ? Nvfp4.KEPT : Nvfp4.ROUNDED);
    }

    /** Rows of the embedding. */
    private int vocabulary() {
        long rows = parameters.keySet().stream()
                .filter(t -> GgufNames.isEmbedding(t.name()))
                .mapToLong(t -> t.shape().dim(0))
                .findFirst()
                .orElseThrow(() -> malformed("there is no embedding"));
        if (config.path("vocab_size").asLong() != rows) {
            throw malformed(
                    "vocab_size is " + config.path("vocab_size").asText() + ", the embedding has " + rows + " rows");
        }
        return Math.toIntExact(rows);
    }

    private void requireWhole(SequencedMap<String, GgufValue> keys) {
        int layers =
                keys.get(family.architecture() + ".block_count") instanceof GgufValue.Whole w ? (int) w.number() : 0;
        Set<String> there = parameters.keySet().stream().map(GgufTensor::name).collect(Collectors.toUnmodifiableSet());
        GgufNames names = new GgufNames(family);
        names.weights(layers).filter(t -> !there.contains(t)).findFirst().ifPresent(t -> {
            throw malformed("the checkpoint of " + layers + " layers has no '"
                    + names.inModel(t).orElse(t) + "'");
        });
        if (!isTied() && !there.contains(GgufNames.HEAD)) { // llama.cpp would compute with the embedding in its place
            throw malformed("the head is not tied to the embedding, and the checkpoint has no '"
                    + names.inModel(GgufNames.HEAD).orElse(GgufNames.HEAD) + "'");
        }
    }

    /** Whether the output layer is the embedding. */
    private boolean isTied() {
        return family.has(Trait.TIED) || config.path("tie_word_embeddings").asBoolean(false);
    }

    private void requireHeads(SequencedMap<String, GgufValue> keys) {
        String a = family.architecture() + ".attention.";
        if (headSize % 2 != 0) {
            throw malformed("heads have " + headSize + " rows, which cannot be rotated in pairs");
        }
        for (GgufTensor t : parameters.keySet()) {
            boolean query = GgufNames.isQuery(t.name());
            if ((query || GgufNames.isKey(t.name()))
                    && keys.get(a + (query ? "head_count" : "head_count_kv")) instanceof GgufValue.Whole heads
                    && t.shape().dim(0) != heads.number() * headSize) {
                throw malformed("'" + parameters.get(t) + "' has " + t.shape().dim(0) + " rows, not those of "
                        + heads.number() + " heads of " + headSize);
            }
        }
    }

    private MalformedModelException malformed(String what) {
        return new MalformedModelException(what, where(), "put the config.json of this model beside its weights");
    }

    private String where() {
        return checkpoint.path().toString();
    }

    private void list() {
        GgufNames names = new GgufNames(family);
        List<String> all = new ArrayList<>(stored.plain().keySet());
        all.addAll(stored.weights().keySet());
        boolean tied = isTied();
        List<String> unknown = new ArrayList<>();
        SequencedMap<String, String> found = new LinkedHashMap<>();
        for (String parameter : all) {
            if ((parameter.equals("lm_head.weight") && tied) || parameter.endsWith(".rotary_emb.inv_freq")) {
                continue;
            }
            names.inFile(parameter).ifPresentOrElse(t -> found.put(t, parameter), () -> unknown.add(parameter));
        }
        if (!unknown.isEmpty()) {
            throw new UnsupportedModelException(
                    unknown.size() + " tensors have no place in a GGUF file of '" + family.architecture() + "', as '"
                            + unknown.getFirst() + "'",
                    where(),
                    "only decoders of the known families without additional parts can be written");
        }
        List<String> wide = new ArrayList<>();
        found.entrySet().stream()
                .sorted(Map.Entry.comparingByKey(Comparator.comparing(GgufExport::place)))
                .forEach(e -> {
                    Shape shape = reader.shape(e.getValue());
                    boolean matrix = GgufNames.isMatrix(e.getKey());
                    if (shape.rank() != (matrix ? 2 : 1) || shape.elementCount() == 0) {
                        throw malformed("'" + e.getValue() + "' has the shape " + shape + ", not that of a "
                                + (matrix ? "matrix" : "vector"));
                    }
                    GgufType own = isKept(e.getValue()) ? GgufType.NVFP4 : typeOf(e.getKey(), shape);
                    if (own == GgufType.NVFP4 && isKept(e.getValue())) {
                        requireKeepable(e.getKey(), e.getValue(), shape, found.keySet());
                    } else if (own != type && shape.rank() == 2 && !GgufNames.isTable(e.getKey())) {
                        wide.add(e.getKey());
                    }
                    parameters.put(new GgufTensor(e.getKey(), shape, own), e.getValue());
                });
        if (!wide.isEmpty()) {
            notes.add(wide.size() + " matrices are F16, since rows of " + type + " are a multiple of "
                    + type.blockElements() + " elements: " + wide.getFirst() + " ...");
        }
        notes.addAll(configuration.notes());
    }

    /** Whether a weight goes over in its own codes and scales. */
    private boolean isKept(String parameter) {
        StoredWeight weight = stored.weights().get(parameter);
        ScaleTensor scale = weight == null ? null : weight.scale();
        return nvfp4 == Nvfp4.KEPT
                && weight != null
                && scale != null
                && weight.unread() == null
                && weight.codes() == QuantType.E2M1
                && weight.granularity().equals(new Granularity.PerGroup(-1, GgufTiles.NVFP4_GROUP))
                && scale.number() == DType.F8_E4M3FN;
    }

    private void requireKeepable(String tensor, String parameter, Shape shape, Set<String> tensors) {
        StoredWeight weight = Objects.requireNonNull(stored.weights().get(parameter));
        String why = "";
        if (shape.dim(-1) % GgufType.NVFP4.blockElements() != 0) {
            why = "rows of " + shape.dim(-1) + " elements are no whole blocks of " + GgufType.NVFP4.blockElements();
        } else if (GgufNames.isEmbedding(tensor)) {
            why = "llama.cpp looks embeddings up without their upper scale";
        } else if (weight.globalScale() != null
                && GgufNames.isMlp(tensor)
                && tensors.contains(GgufNames.biasOf(tensor))) {
            why = "llama.cpp has no MLP in NVFP4 with an upper scale and a bias";
        }
        if (!why.isEmpty()) {
            throw new UnsupportedModelException(
                    "its NVFP4 does not go over as it is: " + why,
                    "tensor '" + weight.data().name() + "'",
                    "give --type bf16, which dequantises it");
        }
    }

    /** The tables first, then layer by layer in the order of numbers. */
    private static String place(String tensor) {
        if (!tensor.startsWith("blk.")) {
            return (tensor.startsWith("token") ? "0" : "2") + tensor;
        }
        String[] parts = tensor.split("\\.", 3);
        return "1" + "0".repeat(Math.max(0, 6 - parts[1].length())) + parts[1] + "." + parts[2];
    }

    /** Vectors are F32, as llama.cpp demands; tables of a four-bit file stay in eight bits, as its own tools keep them. */
    private GgufType typeOf(String tensor, Shape shape) {
        if (shape.rank() < 2) {
            return GgufType.F32;
        }
        boolean fourBits = type == GgufType.MXFP4 || type == GgufType.NVFP4 || type == GgufType.Q4_0;
        GgufType wanted = fourBits && GgufNames.isTable(tensor) ? GgufType.Q8_0 : type;
        return shape.dim(-1) % wanted.blockElements() == 0 ? wanted : GgufType.F16;
    }

    /**
     * What the file has, or would have.
     *
     * @param architecture {@code general.architecture}
     * @param tensors their number
     * @param bytes of all tensors
     * @param tokenizer whether it has one
     * @param notes what a user should know
     */
    public record Result(String architecture, int tensors, long bytes, boolean tokenizer, List<String> notes) {
        public Result {
            notes = List.copyOf(notes);
        }
    }

    /** Whether the folder's tokenizer goes into the file. */
    public enum Tokenizer {
        /** It must be one that llama.cpp splits texts as. */
        INCLUDED,
        LEFT_OUT
    }

    /**
     * What {@link #write} would give; also checks the tokenizer.
     *
     * @throws UnsupportedModelException when llama.cpp would tokenise otherwise
     */
    public Result plan(Tokenizer tokenizer) throws IOException {
        SequencedMap<GgufTensor, Float> scales = scales();
        return result(metadata(tokenizer), scales, Map.of());
    }

    /** The scales of whole tensors that lie beside kept weights, and those of their inputs: each one F32, a multiplier. */
    private SequencedMap<GgufTensor, Float> scales() throws IOException {
        SequencedMap<GgufTensor, Float> scales = new LinkedHashMap<>();
        keptNotes.clear();
        int kept = 0;
        int inexact = 0;
        for (Map.Entry<GgufTensor, String> e : parameters.entrySet()) {
            if (!isKept(e.getValue())) {
                continue;
            }
            kept++;
            String tensor = e.getKey().name();
            GlobalScale global = reader.globalScale(e.getValue());
            if (global != null) {
                float multiplier = multiplier(global, e.getValue());
                scales.put(one(GgufNames.scaleOf(tensor)), multiplier);
                inexact += isExact(global, multiplier) ? 0 : 1;
            }
            Float input = reader.inputScale(e.getValue());
            if (input != null) {
                scales.put(one(GgufNames.inputScaleOf(tensor)), input);
            }
        }
        if (kept > 0) {
            keptNotes.add(kept + " matrices in NVFP4 keep their codes and scales");
        }
        if (inexact > 0) {
            keptNotes.add("the upper scales of " + inexact
                    + " matrices are divisors without an exact inverse, which GGUF wants: values differ in the"
                    + " last bits");
        }
        return scales;
    }

    private static GgufTensor one(String name) {
        return new GgufTensor(name, Shape.of(1), GgufType.F32);
    }

    private static float multiplier(GlobalScale global, String parameter) {
        float multiplier = switch (global.direction()) {
            case MULTIPLIER -> global.value();
            case DIVISOR -> 1 / global.value();
        };
        if (!(multiplier >= Float.MIN_NORMAL && multiplier < Float.POSITIVE_INFINITY)) {
            throw new UnsupportedModelException(
                    "the inverse of its upper scale " + global.value() + " is no normal F32",
                    "tensor '" + parameter + "'",
                    "give --type bf16, which dequantises it");
        }
        return multiplier;
    }

    /** Whether every scale of a block gives the same product as readers of the checkpoint compute. */
    private static boolean isExact(GlobalScale global, float multiplier) {
        for (int code = 0; code <= Nvfp4Blocks.LARGEST_SCALE; code++) {
            float block = Float8Format.E4M3FN.decode(code);
            if (global.multiplier(block) != block * multiplier) {
                return false;
            }
        }
        return true;
    }

    private Result result(
            SequencedMap<String, GgufValue> metadata, SequencedMap<GgufTensor, Float> scales, Map<String, Long> lost) {
        boolean tokenizer = metadata.containsKey(TokenizerImport.PREFIX + "tokens");
        List<String> all = new ArrayList<>(notes);
        all.addAll(keptNotes);
        new TreeMap<>(lost)
                .forEach((parameter, blocks) -> all.add(blocks + " blocks of '" + parameter
                        + "' became zero: " + type + " has no scale that small"
                        + (type == GgufType.NVFP4 ? "; mxfp4 has" : "")));
        if (!tokenizer) {
            all.add("without a tokenizer: llama.cpp loads the file for computing only");
        }
        long bytes =
                parameters.keySet().stream().mapToLong(GgufTensor::byteSize).sum() + scales.size() * (long) Float.BYTES;
        return new Result(family.architecture(), parameters.size() + scales.size(), bytes, tokenizer, all);
    }

    private SequencedMap<String, GgufValue> metadata(Tokenizer tokenizer) throws IOException {
        SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();
        keys.put(GgufKeys.ARCHITECTURE, GgufValue.of(family.architecture()));
        keys.put("general.type", GgufValue.of("model"));
        keys.put(GgufKeys.NAME, GgufValue.of(String.valueOf(checkpoint.folder().getFileName())));
        boolean kept = parameters.values().stream().anyMatch(this::isKept);
        GgufFileType.of(kept ? GgufType.NVFP4 : type).ifPresent(t -> keys.put(GgufFileType.KEY, GgufValue.of(t.id())));
        keys.put("general.quantization_version", GgufValue.of(QUANTIZATION_VERSION));
        keys.putAll(new GgufConfig(family).keys(config, where()));
        if (tokenizer == Tokenizer.INCLUDED) {
            keys.putAll(TokenizerExport.read(checkpoint.folder(), config, vocabulary));
        }
        return keys;
    }

    /**
     * Writes the file atomically, the same for any number of threads. An earlier file is replaced.
     *
     * @throws UnsupportedModelException when llama.cpp would tokenise otherwise
     * @throws InvalidDataException when a weight is not finite, or larger than its type's largest
     * @throws IOException when reading or writing fails; nothing half-written is left
     */
    public Result write(Path output, Tokenizer tokenizer, StreamOptions options) throws IOException {
        SequencedMap<String, GgufValue> metadata = metadata(tokenizer);
        SequencedMap<GgufTensor, Float> scales = scales();
        GgufTiles encoder = new GgufTiles(checkpoint, stored, family, headSize);
        List<GgufTensor> tensors = new ArrayList<>();
        List<GgufTiles.Tile> tiles = new ArrayList<>();
        factors.ifPresent(f -> {
            tensors.add(new GgufTensor(GgufNames.ROPE_FACTORS, Shape.of(f.length), GgufType.F32));
            tiles.add(encoder.of(tensors.getFirst(), f));
        });
        parameters.forEach((tensor, parameter) -> {
            tensors.add(tensor);
            tiles.addAll(encoder.of(tensor, parameter, isKept(parameter)));
        });
        scales.forEach((tensor, scale) -> {
            tensors.add(tensor);
            tiles.add(encoder.of(tensor, new float[] {scale}));
        });
        ByteCounter counter = new ByteCounter(
                options.progress(),
                tiles.stream().mapToLong(GgufTiles.Tile::bytes).sum());
        try (TileScratch.Pool pool = new TileScratch.Pool();
                GgufWriter file = GgufWriter.create(output, metadata, Collections.unmodifiableList(tensors))) {
            Workers.run(tiles.size(), options.threads(), i -> {
                GgufTiles.Tile tile = tiles.get(i);
                TileScratch scratch = pool.take();
                try {
                    tile.write(file, scratch);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                } finally {
                    pool.give(scratch);
                }
                counter.add(tile.bytes());
            });
            file.commit();
        } catch (UncheckedIOException e) {
            throw Objects.requireNonNullElseGet(e.getCause(), () -> new IOException(e));
        }
        return result(metadata, scales, encoder.lost());
    }
}
