package dev.octet.pipeline;

import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.ExpertChoices;
import dev.octet.converter.plan.LinearScales;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.DatasetTexts;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.pipeline.run.QatExport;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.RunScales;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.pipeline.run.SampleDataset;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.adapter.SavedAdapter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.optimizer.WeightAveraging;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.qat.LearnedScales;
import dev.octet.trainer.qat.QuantizedGraph;
import dev.octet.trainer.step.AdapterSaving;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A run as one of its checkpoints has it, and the model it was started with: what is exported, and what an export is proved against.
 *
 * <p>Not thread-safe.
 */
final class TrainedRun implements AutoCloseable {
    private final RunFolder run;
    private final OpenedModel source;
    private final CheckpointFile checkpoint;
    private final TrainingState state;
    private final boolean averaged;
    private final List<Tie> ties;
    private final GraphSource base;
    private final Optional<AdaptedGraph> adapted;
    private final GraphSource floats;
    private final Optional<QuantizedGraph> quantized;
    private final GraphSource trained;
    private final RunScales scales;

    private TrainedRun(
            RunFolder run, OpenedModel source, CheckpointFile checkpoint, Optional<WeightAveraging.Kind> average) {
        this.run = run;
        this.source = source;
        this.checkpoint = checkpoint;
        this.averaged = average.isPresent();
        this.state = average.isPresent() ? averaged(average.get()) : checkpoint.state();
        this.ties = run.config().ties().of(Ties.find(source.canonical().graph()));
        this.base = source.source().withTies(ties);
        InitialValues values = initialValues();
        this.adapted = run.config().adapter().map(a -> a.adapt(base.graph(), values));
        this.floats = adapted.map(base::withAdapter).orElse(base);
        this.quantized = run.config()
                .precision()
                .qat()
                .map(q -> QuantizedGraph.of(floats.graph(), q, run.config().seed()));
        this.trained = quantized.map(q -> floats.with(q.model())).orElse(floats);
        this.scales = RunScales.of(policy(), floats.graph(), state)
                .with(quantized
                        .map(q -> LearnedScales.of(q, state.parameters()))
                        .orElse(List.of()));
    }

    /**
     * Opens a run.
     *
     * @param folder what {@code octet train -o} wrote
     * @param model where the model lies now that the run was started with; empty for where it lay then
     * @param step whose checkpoint; 0 for the newest
     * @param average which average of the weights takes their place; empty for none
     * @throws OctetException when the folder is not a run, the model is another one, or the checkpoint is damaged or not there
     */
    static TrainedRun open(Path folder, Optional<Path> model, long step, Optional<WeightAveraging.Kind> average)
            throws IOException {
        RunFolder run = RunFolder.open(folder, model);
        OpenedModel source = OpenedModel.of(run.model());
        try {
            CheckpointFile checkpoint = run.checkpoint(step);
            try {
                return new TrainedRun(run, source, checkpoint, average);
            } catch (RuntimeException e) {
                checkpoint.close();
                throw e;
            }
        } catch (IOException | RuntimeException e) {
            source.close();
            throw e;
        }
    }

    /**
     * What the adapter's graph is made with; its trained weights are the checkpoint's in any case. Modules that started from a part of their weight are made as the
     * run made them: the part belongs to the graph.
     */
    private InitialValues initialValues() {
        boolean fromWeights = state.adapter().isPresent()
                && state.adapter().get().computed().keySet().stream()
                        .anyMatch(key -> PeftKeys.parse(key).role() != PeftRole.PROMPT);
        return fromWeights
                ? InitialValues.seeded(run.config().seed())
                : InitialValues.continuing(state.parameters(), run.folder().toString());
    }

    /** The checkpoint's state with the average in place of the weights. */
    private TrainingState averaged(WeightAveraging.Kind kind) {
        TrainingState found = checkpoint.state();
        WeightAveraging averaging = run.config().averaging().get(kind.label());
        String where = run.folder() + ", checkpoint of step " + found.step();
        if (averaging == null) {
            throw new InvalidOptionException(
                    "the run keeps no " + kind.label() + " average of its weights",
                    where,
                    "train with averaging: {" + kind.label() + ": ...} in the configuration, or leave --weights out");
        }
        Tensor updates = found.state().get(UpdateProgram.STEP);
        long done = updates == null ? 0 : (long) updates.toFloats()[0];
        if (averaging.averaged(done) == 0) {
            throw new InvalidOptionException(
                    "the " + kind.label() + " average is empty: it begins after step " + averaging.start()
                            + ", and this checkpoint has " + done + " updates",
                    where,
                    "export a later checkpoint, or leave --weights out");
        }
        Map<String, Tensor> weights = kind.averaged(found.parameters(), found.state());
        return found.withParameters(weights);
    }

    /** What the run knows of scales. Those of its weights are not those of their averages. */
    private Map<String, LinearScales> linears() {
        Map<String, LinearScales> linears = new LinkedHashMap<>(scales.linears());
        if (averaged) {
            linears.replaceAll((node, l) -> l.withWeightsOwn());
        }
        return linears;
    }

    /** The checkpoint's, and where it has only an adapter's those of the base. */
    private Map<String, Tensor> weights() {
        if (run.config().adapter().isEmpty()) {
            return state.parameters();
        }
        Map<String, Tensor> all = new LinkedHashMap<>();
        Parameters.of(trained.graph().graph())
                .all()
                .forEach(p -> all.put(p.name(), Parameters.master(p, Arena.ofAuto())));
        all.putAll(state.parameters());
        return all;
    }

    /** The weights that the run trained: of a run with an adapter, the adapter's. */
    Map<String, Tensor> parameters() {
        return state.parameters();
    }

    /** The adapter that the run trained; empty where it trained the model itself. */
    Optional<SavedAdapter> adapter(Job job) throws IOException {
        SavedAdapter saved = state.adapter().orElse(null);
        AdaptedGraph graph = adapted.orElse(null);
        if (saved == null || graph == null || !averaged || saved.computed().isEmpty()) {
            return state.adapter();
        }
        // what is computed from trained weights is computed from their averages
        try (Device device = DeviceName.CPU.open(job.threads())) {
            return Optional.of(AdapterSaving.of(
                    graph,
                    state.parameters(),
                    saved.config().baseModel().orElse(""),
                    saved.config().taskType().orElse(""),
                    device,
                    Arena.ofAuto()));
        }
    }

    /** The base with an adapter out of a folder in it, at open sizes. */
    GraphModel withAdapter(Path folder) throws IOException {
        try (PeftAdapter adapter = PeftAdapter.open(folder)) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            adapter.tensors().forEach((key, t) -> tensors.put(key, copy(t)));
            return new AdapterSettings(adapter.config(), Optional.empty())
                    .adapt(base.graph(), InitialValues.continuing(tensors, folder.toString()))
                    .model();
        }
    }

    private static Tensor copy(Tensor tensor) {
        Tensor copy = Tensor.allocate(Arena.ofAuto(), tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    /** The run's folder. */
    Path folder() {
        return run.folder();
    }

    /** The step of the checkpoint. */
    long step() {
        return state.step();
    }

    /** The model that the run was started with. */
    Path model() {
        return run.model();
    }

    /** The canonical graph of the model that the run was started with. */
    GraphModel untrained() {
        return source.canonical();
    }

    /** The Hugging Face folder that the run was started with; empty for an ONNX file. */
    Optional<ModelSource.HuggingFace> huggingFace() {
        return source.file().huggingFace();
    }

    PrecisionPolicy policy() {
        return run.config().changesFor(floats.graph().graph()).policy();
    }

    RunScales scales() {
        return scales;
    }

    /**
     * Writes the trained model for a target.
     *
     * @throws OctetException when the run has not what the target or the recipe needs
     * @throws IOException when writing fails
     */
    Exported export(Export.Request request, ExportWriter.Mode mode, Job job) throws IOException {
        if (mode == ExportWriter.Mode.WRITE) {
            requireApart(request.output());
        }
        if (adapted.isPresent() && request.target() != Target.Floats.PEFT) {
            throw new InvalidOptionException(
                    "the run trained an adapter, and --target "
                            + request.target().label() + " is for whole models",
                    folder().toString(),
                    RunSummary.mergeCommand(
                                    folder(),
                                    step(),
                                    model(),
                                    adapted.get().config().type())
                            .map(command -> "merge it with its base: " + command)
                            .orElse("export it with --target peft; an adapter of this method is part of no weight"));
        }
        if (request.target() == Target.Floats.PEFT) {
            try (TrainedModel none = TrainedModel.of(source.converter(), huggingFace(), Map.of(), Map.of())) {
                return new ExportWriter(this, none, Optional.empty(), request, mode, job).write();
            }
        }
        Map<String, Tensor> own = new LinkedHashMap<>(state.parameters());
        quantized.ifPresent(q -> own.keySet().removeAll(q.parameters()));
        Map<String, Tensor> masters = Ties.withCopies(own, ties, Arena.ofAuto());
        QatExport qat = quantized.isEmpty()
                ? null
                : new QatExport(
                        scales.learned(),
                        untrained().graph(),
                        masters,
                        ties.stream().filter(Tie::transposed).map(Tie::copy).collect(Collectors.toSet()),
                        folder().toString());
        Map<String, Tensor> weights = qat == null ? masters : qat.weights();
        Map<String, LinearScales> linears = qat == null ? linears() : qat.linears();
        try (TrainedModel model = TrainedModel.of(source.converter(), huggingFace(), weights, linears)) {
            return new ExportWriter(this, model, Optional.ofNullable(qat), request, mode, job).write();
        }
    }

    private void requireApart(Path output) throws IOException {
        RunPaths paths = RunPaths.none().writing("--output", output);
        for (String entry : RunFolder.ENTRIES) {
            paths = paths.reading("the run", folder().resolve(entry));
        }
        run.readingData(ModelFile.reading(paths, "the model that the run was started with", model()))
                .requireApart();
    }

    /**
     * Runs samples through the trainer and through what was exported, and compares the outputs.
     *
     * @param device where the trainer computes
     */
    Prove.Result prove(Exported exported, Device device, Prove.Options options, Job job) throws IOException {
        List<String> outputs = new ArrayList<>(
                untrained().graph().outputs().stream().map(ValueInfo::name).toList());
        Optional<ExpertChoices> choices = ExpertChoices.of(untrained());
        choices.ifPresent(c -> outputs.addAll(c.outputs()));
        GraphSource shown =
                choices.map(c -> trained.with(c.shown(trained.graph()))).orElse(trained);
        try (ForwardSession trainer = new ForwardSession(shown, outputs, policy(), weights(), state.state(), device);
                Dataset data = data(options)) {
            double gate = options.gate().orElseGet(() -> ExportProof.gate(exported, policy(), scales));
            GraphModel graph = exported.target() == Target.Floats.PEFT ? withAdapter(exported.output()) : untrained();
            return ExportProof.of(trainer, choices, exported, graph, data, gate, job.evaluation("proving", "samples"));
        }
    }

    private Dataset data(Prove.Options options) throws IOException {
        TrainingConfig config = run.config();
        Path file = options.data()
                .or(() -> config.data().eval())
                .orElse(config.data().train());
        Feed feed = Feed.inputsOf(untrained());
        Samples samples = DatasetTexts.samples(file, config.data(), feed, run.model(), DatasetTexts.purpose(config));
        return new SampleDataset(samples, (int) Math.min(options.samples(), samples.count()));
    }

    /** Closes the model and the checkpoint. */
    @Override
    public void close() {
        checkpoint.close();
        source.close();
    }
}
