package dev.octet.converter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.ConsumersGraph;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.converter.data.TokenLimits;
import dev.octet.converter.generate.TextGenerator;
import dev.octet.converter.hf.HfImporter;
import dev.octet.converter.pass.CodedConstants;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.runtime.GraphSession;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.ModelFingerprint;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.CodedWeight;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A model with its graph: read from an ONNX file, or built from the {@code config.json} of a Hugging Face checkpoint. {@link #converter()}
 * imports it.
 *
 * <p>Owns the mapped memory: the tensors of {@link #model()} are invalid after {@link #close()}. Opening a plain checkpoint reads headers
 * and configuration only; opening a quantised checkpoint dequantises its weights to F32 at once.
 */
public final class ModelSource implements AutoCloseable {
    /** Writes attention in single operators, because ONNX Runtime 1.29 does not broadcast the masks of opset 23's Attention. */
    private static final int OPSET = 21;

    private final ModelFile file;
    private final Model model;
    private final @Nullable HuggingFace huggingFace;
    private final Arena arena;

    private ModelSource(ModelFile file, Model model, @Nullable HuggingFace huggingFace, Arena arena) {
        this.file = file;
        this.model = model;
        this.huggingFace = huggingFace;
        this.arena = arena;
    }

    /** How the graph of a quantised checkpoint treats the inputs of its quantised Linears. */
    public enum Activations {
        /** Leaves them unrounded: to train, calibrate or quantise anew. */
        PLAIN,
        /**
         * Rounds them to E4M3 as a consumer with FP8 kernels does, with the checkpoint's static scales or with dynamic scales; also rounds
         * keys and values that have scales. See {@link ConsumersGraph}.
         */
        AS_CONSUMERS
    }

    /**
     * The description of a Hugging Face checkpoint.
     *
     * @param folder holds {@code config.json}, tokenizer and the rest
     * @param config {@code config.json}; callers must not change it
     * @param modelType for example {@code llama}
     * @param modelClass class of transformers, for example {@code LlamaForCausalLM}
     * @param unread tensors that the model does not compute with
     * @param layout layout of its quantised weights in the file, {@code plain} when none is quantised
     * @param notes activations that consumers would quantise and this graph does not, when opened {@link Activations#AS_CONSUMERS}
     */
    public record HuggingFace(
            Path folder,
            ObjectNode config,
            String modelType,
            String modelClass,
            List<String> unread,
            String layout,
            List<String> notes) {
        public HuggingFace {
            unread = List.copyOf(unread);
            notes = List.copyOf(notes);
        }

        /** Limits of its tokens, from its configuration; rotary positions of type {@code dynamic} grow with the text and have none. */
        public TokenLimits tokenLimits() {
            boolean grow = Stream.of("rope_parameters", "rope_scaling")
                    .map(config::path)
                    .flatMap(rope -> Stream.of(rope.path("rope_type"), rope.path("type")))
                    .anyMatch(type -> type.asText().equals("dynamic"));
            return new TokenLimits(
                    first("vocab_size"), grow ? OptionalLong.empty() : first("max_position_embeddings", "n_positions"));
        }

        private OptionalLong first(String... keys) {
            for (String key : keys) {
                if (config.path(key).isIntegralNumber()) {
                    return OptionalLong.of(config.path(key).asLong());
                }
            }
            return OptionalLong.empty();
        }
    }

    /**
     * Opens an ONNX file, a safetensors file or index with {@code config.json} next to it, or a folder of these. Tensors without a
     * configuration have no graph.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when the format or the architecture is unknown
     * @throws dev.octet.formats.error.MalformedModelException when the model breaks a rule of its format, or tensors and configuration
     *     disagree
     * @throws IOException when it cannot be read
     */
    public static ModelSource open(Path path) throws IOException {
        return open(path, Activations.PLAIN);
    }

    /** The same, with a choice for checkpoints that are quantised. */
    public static ModelSource open(Path path, Activations activations) throws IOException {
        return opened(path, (file, arena) -> of(file, activations, false, HfImporter.Use.SEQUENCES, arena));
    }

    /**
     * Opens a Hugging Face checkpoint to continue texts: its graph has a {@linkplain dev.octet.converter.hf.KeyValueCache cache of keys and
     * values}, and treats quantised inputs {@link Activations#AS_CONSUMERS}.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException also for an ONNX file, and a class that does not predict the next token
     * @throws IOException when it cannot be read
     */
    public static ModelSource openForGeneration(Path path) throws IOException {
        return opened(path, (file, arena) -> {
            ModelSource source = of(file, Activations.AS_CONSUMERS, false, HfImporter.Use.GENERATION, arena);
            if (source.huggingFace == null) {
                throw new UnsupportedModelException(
                        "there is no config.json, from which a graph with a cache is built",
                        path.toString(),
                        "give a Hugging Face folder; `octet convert MODEL --target huggingface` makes one of an"
                                + " export");
            }
            return source;
        });
    }

    private static ModelSource opened(Path path, Opening opening) throws IOException {
        ModelFile file = ModelFile.open(path);
        Arena arena = Arena.ofShared();
        boolean opened = false;
        try {
            ModelSource source = opening.of(file, arena);
            opened = true;
            return source;
        } finally {
            if (!opened) {
                arena.close();
                file.close();
            }
        }
    }

    /**
     * Opens a model to be trained as it is stored: the graph of a quantised model, checkpoint or ONNX file, has {@linkplain Initializer.Coded coded} constants,
     * which stay in the bytes of the mapped file. Weights that only fit the trainer dense (matrices of experts) are dequantised to F32 as {@link #open(Path)} does with all.
     * Only the trainer takes such a graph: it cannot be saved, nor run by ONNX Runtime.
     *
     * @throws dev.octet.formats.error.InvalidDataException when a scale is not positive and finite
     * @throws dev.octet.formats.error.MalformedModelException as {@link #open(Path)}, and when quantised weights have no scale
     */
    public static ModelSource openAsStored(Path path) throws IOException {
        return opened(path, (file, arena) -> {
            Optional<GraphModel> graph = file.model().graph();
            if (graph.isEmpty()) {
                return of(file, Activations.PLAIN, true, HfImporter.Use.SEQUENCES, arena);
            }
            GraphModel coded = CodedConstants.of(graph.get(), new PassLog());
            return new ModelSource(file, Model.of(coded), null, arena);
        });
    }

    private interface Opening {
        ModelSource of(ModelFile file, Arena arena) throws IOException;
    }

    private static ModelSource of(
            ModelFile file, Activations activations, boolean asStored, HfImporter.Use use, Arena arena)
            throws IOException {
        if (file.model().graph().isPresent() || !Checkpoint.isCheckpoint(file.path())) {
            return new ModelSource(file, file.model(), null, arena);
        }
        try (CheckpointConverter checkpoint = CheckpointConverter.open(file.path())) {
            Optional<ObjectNode> config = checkpoint.checkpoint().config();
            if (config.isEmpty()) {
                return new ModelSource(file, file.model(), null, arena);
            }
            Path folder = checkpoint.checkpoint().folder();
            HfImporter.Imported imported = HfImporter.ofConstants(
                    config.get(),
                    constants(file.model(), checkpoint, asStored, arena),
                    use,
                    folder.resolve(ModelConfig.FILE_NAME).toString());
            GraphModel graph = imported.model();
            List<String> notes = List.of();
            if (activations == Activations.AS_CONSUMERS) {
                ConsumersGraph computed = checkpoint.computedByConsumers(graph, HfImporter::attentionNode, arena);
                graph = computed.model();
                notes = computed.notes();
            }
            HuggingFace huggingFace = new HuggingFace(
                    folder,
                    config.get(),
                    imported.modelType(),
                    imported.modelClass(),
                    imported.unread(),
                    checkpoint.stored().layout(),
                    notes);
            return new ModelSource(file, Model.of(graph), huggingFace, arena);
        }
    }

    /** Plain tensors as stored; quantised tensors coded or dequantised, without their scales. */
    private static Map<String, Initializer> constants(
            Model model, CheckpointConverter checkpoint, boolean asStored, Arena arena) throws IOException {
        Map<String, Initializer> constants = new LinkedHashMap<>();
        if (checkpoint.stored().weights().isEmpty()) {
            model.tensors().forEach((name, t) -> constants.put(name, Initializer.of(t)));
            return constants;
        }
        for (String name : checkpoint.stored().plain().keySet()) {
            constants.put(name, Initializer.of(model.tensor(name)));
        }
        WeightReader reader = WeightReader.of(checkpoint.checkpoint(), checkpoint.stored());
        for (StoredWeight stored : checkpoint.stored().weights().values()) {
            String name = stored.name();
            if (asStored && CodedWeight.takes(stored)) {
                CodedWeight coded =
                        CodedWeight.of(stored, tensor -> model.tensor(tensor).bytes());
                constants.put(name, Initializer.of(coded));
                continue;
            }
            Tensor weight = Tensor.allocate(arena, new TensorSpec(name, DType.F32, reader.shape(name)));
            reader.read(name, 0, rows(weight), weight.bytes());
            constants.put(name, Initializer.of(weight));
        }
        return constants;
    }

    private static long rows(Tensor weight) {
        int rank = weight.shape().rank();
        return rank < 2
                ? 1
                : weight.shape().elementCount() / Math.max(1, weight.shape().dim(rank - 1));
    }

    /** Classes of transformers for whose checkpoints Octet builds a graph, in alphabetical order. */
    public static List<String> architectures() {
        return HfImporter.classes();
    }

    /** The opened path. */
    public Path path() {
        return file.path();
    }

    /** The model; it has a graph unless the checkpoint has no configuration. Its tensors may be used until {@link #close()}. */
    public Model model() {
        return model;
    }

    /**
     * Imports the model, as {@link Converter#of(Model)} does. The converter reads from this source: close the converter first.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when there is no graph, or its opset cannot be upgraded
     * @throws dev.octet.formats.error.MalformedModelException when the graph contradicts itself
     */
    public Converter converter() {
        return Converter.of(model, path().toString());
    }

    /** The description of a Hugging Face checkpoint; empty for an ONNX file. */
    public Optional<HuggingFace> huggingFace() {
        return Optional.ofNullable(huggingFace);
    }

    /**
     * Loads the model in ONNX Runtime: an ONNX file with default settings, as its users load it; the graph of a checkpoint as written, so
     * that every quantisation stays where it is.
     *
     * @param threads threads of one operator
     * @throws dev.octet.formats.error.UnsupportedModelException when there is no graph, or ONNX Runtime refuses it
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when a file cannot be read or written
     */
    public OnnxRuntimeSession load(int threads) throws IOException {
        if (huggingFace == null) {
            return OnnxRuntime.open(path(), SessionSettings.defaults().withThreads(threads));
        }
        try (Converter converter = converter()) {
            return GraphSession.open(runnable(converter), new SessionSettings(threads, false));
        }
    }

    /**
     * Loads a model that was {@linkplain #openForGeneration opened for generation}; this may be closed before the generator is.
     *
     * @param threads threads of one operator
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the graph
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when a temporary file cannot be written
     */
    public TextGenerator generator(int threads) throws IOException {
        TokenLimits limits = huggingFace().orElseThrow().tokenLimits();
        GraphModel graph = model.graph().orElseThrow();
        return TextGenerator.of(load(threads), graph, path().toString(), limits);
    }

    /**
     * The graph for ONNX Runtime: that of an ONNX file at its own opset, that of a checkpoint at an opset that ONNX Runtime fully computes.
     *
     * @param converter of this model
     */
    public GraphModel runnable(Converter converter) {
        return huggingFace == null ? converter.runnable() : converter.standard(OPSET);
    }

    /**
     * Identifies the model in statistics: SHA-256 of an ONNX file, {@link ModelFingerprint} of a checkpoint (as stored, quantised or not).
     *
     * @throws IOException when it cannot be read
     */
    public String digest() throws IOException {
        return huggingFace == null
                ? Sha256.of(path())
                : ModelFingerprint.of(
                        huggingFace.config().toString(), file.model().tensors());
    }

    @Override
    public void close() {
        arena.close();
        file.close();
    }
}
