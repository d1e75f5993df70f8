package dev.octet.converter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.ModelSource.HuggingFace;
import dev.octet.converter.checkpoint.AuxiliaryFiles;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.converter.checkpoint.KeptScales;
import dev.octet.converter.checkpoint.MastersFolder;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.ShardPlan;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.converter.checkpoint.WeightDecision;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.plan.WeightScales;
import dev.octet.converter.trained.CheckpointTensors;
import dev.octet.converter.trained.CodedWeights;
import dev.octet.converter.trained.FusedParts;
import dev.octet.converter.trained.HuggingFaceFolder;
import dev.octet.converter.trained.ModuleState;
import dev.octet.converter.trained.TrainedWeights;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.model.Shard;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Recipe;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A model with the weights and scales of a training run, ready to be written for evaluation or serving.
 *
 * <pre>{@code
 * try (Converter source = Converter.of(file.model()); TrainedModel trained = TrainedModel.of(source, weights, scales)) {
 *     trained.quantized(Recipes.FP8_PER_TENSOR, ConversionOptions.defaults(), Map.of()).save(out);
 * }
 * }</pre>
 *
 * <p>Owns the memory of its tensors; reads from the source model, which must stay open until {@link #close()}. Not thread-safe.
 */
public final class TrainedModel implements AutoCloseable {
    private final Converter converter;
    /** As it was before training, with what it says of constants. */
    private final Graph imported;

    private final @Nullable HuggingFace origin;
    private final Map<String, Tensor> masters;
    private final Set<String> parameters;
    private final Map<String, LinearScales> scales;
    private final Arena arena = Arena.ofShared();

    private TrainedModel(
            Converter converter,
            Graph imported,
            @Nullable HuggingFace origin,
            Map<String, Tensor> masters,
            Set<String> parameters,
            Map<String, LinearScales> scales) {
        this.converter = converter;
        this.imported = imported;
        this.origin = origin;
        this.masters = Map.copyOf(masters);
        this.parameters = parameters;
        this.scales = scales;
    }

    /**
     * Combines a model with the results of its training run.
     *
     * @param source the model that the run started from
     * @param weights the run's parameters by the name of the canonical model's constant
     * @param scales scales of the Linears that the run computed in FP8, by node id of the canonical model; empty for a run without FP8.
     *     Unless it is empty, Linears without an entry stay as they are under every recipe
     * @throws dev.octet.formats.error.InvalidDataException when names or shapes differ from the model's, or a weight is not finite
     */
    public static TrainedModel of(Converter source, Map<String, Tensor> weights, Map<String, LinearScales> scales) {
        return of(source, Optional.empty(), weights, scales);
    }

    /**
     * The same for a model that may come from a Hugging Face folder: a checkpoint written from it gets the folder's configuration and other
     * files.
     *
     * @param origin the folder; its files must not change
     */
    public static TrainedModel of(
            Converter source,
            Optional<HuggingFace> origin,
            Map<String, Tensor> weights,
            Map<String, LinearScales> scales) {
        Converter trained = source.withWeights(weights);
        Set<String> parameters = CheckpointTensors.parameters(trained.canonical(), weights.keySet());
        return new TrainedModel(
                trained, source.canonical().graph(), origin.orElse(null), weights, parameters, new TreeMap<>(scales));
    }

    /**
     * A model with the dequantised weights of its own conversion, where training of a quantised model begins. Quantising them by the same
     * recipe gives the same codes again.
     *
     * @param conversion of {@code source} by a weight recipe, for the target ONNX Runtime, which keeps the model's orientation of weights
     */
    public static TrainedModel dequantized(Converter source, Conversion conversion) {
        Arena arena = Arena.ofShared();
        try {
            Map<String, Tensor> weights = CodedWeights.decoded(
                    source.canonical().graph(), conversion.model().graph(), linears(conversion), arena);
            return of(source, weights, Map.of());
        } finally {
            arena.close();
        }
    }

    /** The canonical model with the trained weights. */
    public GraphModel canonical() {
        return converter.canonical();
    }

    /** Plans a recipe; Linears that the run computed in high precision are kept. */
    public Plan plan(Recipe recipe) {
        Plan plan = converter.plan(recipe, List.of());
        return scales.isEmpty() ? plan : plan.keeping(highPrecision(plan));
    }

    private Map<String, String> highPrecision(Plan plan) {
        Map<String, String> kept = new HashMap<>();
        for (Decision.Converted d : plan.converted(LayerKind.LINEAR)) {
            if (!scales.containsKey(d.node())) {
                kept.put(d.node(), "the run computed it in high precision");
            }
        }
        return kept;
    }

    /**
     * The model as ONNX in FP8. Static activation scales come from the run; a Linear without one is kept. If the recipe has one scale per
     * weight, it comes from the run too, so that the codes equal those the run computed with.
     *
     * @param options target and threads
     * @param metadata metadata entries about the run
     */
    public Conversion quantized(Recipe recipe, ConversionOptions options, Map<String, String> metadata) {
        return converter.convert(plan(recipe), scales, options, metadata);
    }

    /**
     * The model as standard ONNX in floats.
     *
     * @param type storage type of the parameters; the graph casts them where it computes in another type
     */
    public GraphModel plain(DType type) {
        GraphModel stored = TrainedWeights.store(converter.canonical(), parameters, type, arena);
        return new StandardOps().apply(stored, new PassLog());
    }

    /** The parameters in checkpoint form: Linear matrices as [out, in], by the names of the canonical model. */
    public Map<String, Tensor> tensors(DType type) {
        return TrainedWeights.cast(CheckpointTensors.of(converter.canonical(), parameters, arena), type, arena);
    }

    /**
     * Writes the Hugging Face folder that the model came from with the trained weights: the same names, shapes and configuration.
     *
     * @param type of all floats; empty to keep each tensor's type in the folder
     * @param output a folder to make; empty to plan without writing
     * @param force overwrite the model that is there
     * @throws UnsupportedModelException when the model did not come from such a folder
     * @throws dev.octet.formats.error.InvalidOptionException when the output is in the way
     * @throws IOException when reading or writing fails; nothing is left then
     */
    public HuggingFaceFolder.Written huggingFace(Optional<DType> type, Optional<Path> output, boolean force)
            throws IOException {
        HuggingFace from = origin;
        if (from == null) {
            throw new UnsupportedModelException(
                    "the run started from an ONNX file, which lacks the names and the configuration that Hugging Face's"
                            + " libraries need",
                    "target huggingface",
                    "start the run with a Hugging Face folder, or export with --target safetensors or onnx");
        }
        try (CheckpointConverter source = CheckpointConverter.open(from.folder())) {
            HuggingFaceFolder folder = new HuggingFaceFolder(
                    source.checkpoint(),
                    source.stored(),
                    FusedParts.joined(imported, masters, arena),
                    Set.copyOf(from.unread()),
                    type);
            return output.isEmpty()
                    ? folder.plan()
                    : folder.write(output.get(), SafetensorsWriter.DEFAULT_SHARD_BYTES, force);
        }
    }

    /**
     * The parameters with the FP8 state of their modules, under the names of docs/export.md#transformer-engine.
     *
     * @param type of the parameters; the state is F32
     */
    public Map<String, Tensor> withState(DType type, List<ModuleState> states) {
        Map<String, Tensor> all = new LinkedHashMap<>(tensors(type));
        states.forEach(s -> s.addTo(all, arena));
        return all;
    }

    /**
     * Writes a checkpoint in FP8.
     *
     * @param config the model's {@code config.json}, to which the quantisation is added; an empty object without one
     * @param type of the tensors that are not quantised
     * @param output a folder to make
     * @throws dev.octet.formats.error.UnsupportedModelException when there is nothing to quantise
     * @throws dev.octet.formats.error.InvalidOptionException when the layout cannot express the recipe, or the output is in the way
     * @throws IOException when writing fails; nothing is left then
     */
    public Checkpointed quantized(
            Recipe recipe, Layout layout, ObjectNode config, DType type, Path output, StreamOptions options)
            throws IOException {
        boolean staticInputs = recipe.input() != null
                && scales.values().stream().anyMatch(s -> s.inputScale() != null)
                && layout.scheme(recipe, LayoutOptions.defaults().withStaticInputs(true))
                        .isPresent();
        ConversionRequest goal = new ConversionRequest.Quantize(
                recipe, layout, LayoutOptions.defaults().withStaticInputs(staticInputs));
        WholeFolder.requireFree(output, options.force());
        Path to = output.toAbsolutePath().normalize();
        try (MastersFolder folder = MastersFolder.beside(to)) {
            Path masters = Files.createDirectory(folder.path().resolve("masters"));
            Path made = Files.createDirectory(folder.path().resolve("made")).resolve(String.valueOf(to.getFileName()));
            write(config, masters.resolve(ModelConfig.FILE_NAME));
            Map<String, Tensor> tensors = tensors(DType.F32);
            SafetensorsWriter.write(masters.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
            CheckpointConverter.Request request = request(tensors, staticInputs);
            Set<String> quantized;
            try (CheckpointConverter c = CheckpointConverter.open(masters)) {
                quantized = c.plan(goal, request, options).decisions().stream()
                        .filter(WeightDecision::quantized)
                        .map(WeightDecision::name)
                        .collect(Collectors.toSet());
            }
            Map<String, Tensor> mixed = new LinkedHashMap<>(tensors(type));
            mixed.replaceAll((name, t) -> quantized.contains(name) ? Objects.requireNonNull(tensors.get(name)) : t);
            SafetensorsWriter.write(masters.resolve("model.safetensors"), mixed, Map.of("format", "pt"));
            try (CheckpointConverter c = CheckpointConverter.open(masters)) {
                CheckpointPlan plan = c.plan(goal, request, options);
                Map<String, KeptScales.Given> learned = learned(plan);
                if (!learned.isEmpty()) {
                    KeptScales.write(plan, learned, masters);
                    plan = c.plan(goal, request.withKeptScales(), options);
                }
                Checkpointed done = new Checkpointed(plan, c.run(plan, made, options), reasons(plan));
                if (Files.isDirectory(made)) {
                    carry(made);
                }
                WholeFolder.place(made, to);
                return done;
            }
        }
    }

    /** The scales that the run learned of the weights that a plan quantises, in the plan's blocks; empty when it learned none. */
    private Map<String, KeptScales.Given> learned(CheckpointPlan plan) {
        Map<String, WeightScales> own = new HashMap<>();
        for (Node n : linears()) {
            LinearScales s = scales.get(n.id());
            if (s != null && s.weightScales() != null) {
                own.put(n.input(1), s.weightScales());
            }
        }
        Map<String, KeptScales.Given> given = new HashMap<>();
        for (ShardPlan shard : plan.shards()) {
            for (TensorStep step : shard.steps()) {
                WeightScales s = own.get(step.name());
                if (step instanceof TensorStep.Quantize q && s != null) {
                    Tensor blocks = s.in(q.target().granularity(), arena)
                            .orElseThrow(() -> new IllegalArgumentException("the scales of " + q.name() + ", of blocks "
                                    + s.blocks().blockShape() + ", do not go into "
                                    + q.target().granularity().text()));
                    given.put(q.name(), new KeptScales.Given(blocks, s.global()));
                }
            }
        }
        return given;
    }

    /** Copies the tokenizer and all other files of the folder that the model came from. */
    private void carry(Path output) throws IOException {
        if (origin != null) {
            try (Checkpoint source = Checkpoint.open(origin.folder())) {
                Set<String> shards = source.shards().stream().map(Shard::name).collect(Collectors.toSet());
                AuxiliaryFiles.of(source.folder(), shards).copyTo(output);
            }
        }
    }

    /**
     * A written checkpoint.
     *
     * @param reasons by weight, why a Linear of the run stays as it is
     */
    public record Checkpointed(CheckpointPlan plan, CheckpointResult result, Map<String, String> reasons) {}

    private CheckpointConverter.Request request(Map<String, Tensor> tensors, boolean staticInputs) {
        Map<String, String> kept = new HashMap<>();
        Map<String, Float> inputs = new HashMap<>();
        for (Node n : linears()) {
            LinearScales s = scales.get(n.id());
            Float input = s == null ? null : s.inputScale();
            if (!scales.isEmpty() && (s == null || (staticInputs && input == null))) {
                kept.put(n.input(1), s == null ? "the run computed it in high precision" : s.reason());
            } else if (staticInputs && input != null) {
                inputs.merge(StoredWeight.moduleOf(n.input(1)), input, Math::max);
            }
        }
        Map<String, Float> unified =
                InputScales.given(inputs, List.copyOf(tensors.keySet())).byModule();
        List<Pattern> trained = linears().stream() // heads, too, which usually stay as they are
                .filter(n -> {
                    LinearScales s = scales.get(n.id());
                    return s != null && s.weightScales() != null;
                })
                .map(n -> Pattern.compile("^" + Pattern.quote(n.input(1)) + "$"))
                .toList();
        Selection selection = new Selection(List.of(), List.of(), trained, kept);
        return CheckpointConverter.Request.of(selection, unified);
    }

    private static Map<String, String> reasons(CheckpointPlan plan) {
        Map<String, String> reasons = new LinkedHashMap<>();
        plan.decisions().stream().filter(d -> !d.quantized()).forEach(d -> reasons.put(d.name(), d.reason()));
        return reasons;
    }

    private static Map<String, String> linears(Conversion conversion) {
        Map<String, String> weights = new LinkedHashMap<>();
        conversion.plan().converted(LayerKind.LINEAR).forEach(d -> weights.put(d.node(), d.weight()));
        return weights;
    }

    private List<Node> linears() {
        return converter.canonical().graph().nodes().stream()
                .filter(n -> n.isOctet("Linear"))
                .toList();
    }

    private static void write(ObjectNode config, Path path) throws IOException {
        try (AtomicFile file = AtomicFile.create(path)) {
            file.write(ByteBuffer.wrap(config.toPrettyString().getBytes(StandardCharsets.UTF_8)));
            file.commit();
        }
    }

    /** Releases the memory of its tensors. */
    @Override
    public void close() {
        converter.close();
        arena.close();
    }
}
