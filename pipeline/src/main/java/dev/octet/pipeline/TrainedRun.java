package dev.octet.pipeline;

import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.data.Dataset;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.DatasetTexts;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.RunScales;
import dev.octet.pipeline.run.SampleDataset;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A run as one of its checkpoints has it, and the model it was started with: what is exported, and what an export is proved against.
 *
 * <p>Not thread-safe.
 */
final class TrainedRun implements AutoCloseable {
    private final RunFolder run;
    private final OpenedModel source;
    private final CheckpointFile checkpoint;
    private final List<Tie> ties;
    private final GraphSource trained;
    private final RunScales scales;

    private TrainedRun(RunFolder run, OpenedModel source, CheckpointFile checkpoint) {
        this.run = run;
        this.source = source;
        this.checkpoint = checkpoint;
        this.ties = run.config().ties().of(Ties.find(source.canonical().graph()));
        this.trained = source.source().withTies(ties);
        this.scales = RunScales.of(policy(), trained.graph(), checkpoint.state());
    }

    /**
     * Opens a run.
     *
     * @param folder what {@code octet train -o} wrote
     * @param model where the model lies now that the run was started with; empty for where it lay then
     * @param step whose checkpoint; 0 for the newest
     * @throws OctetException when the folder is not a run, the model is another one, or the checkpoint is damaged or not there
     */
    static TrainedRun open(Path folder, Optional<Path> model, long step) throws IOException {
        RunFolder run = RunFolder.open(folder, model);
        OpenedModel source = OpenedModel.of(run.model());
        try {
            CheckpointFile checkpoint = run.checkpoint(step);
            try {
                return new TrainedRun(run, source, checkpoint);
            } catch (RuntimeException e) {
                checkpoint.close();
                throw e;
            }
        } catch (IOException | RuntimeException e) {
            source.close();
            throw e;
        }
    }

    /** The run's folder. */
    Path folder() {
        return run.folder();
    }

    /** The step of the checkpoint. */
    long step() {
        return checkpoint.state().step();
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
        return run.config().precision().policy();
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
        Map<String, Tensor> weights = Ties.withCopies(checkpoint.state().parameters(), ties, Arena.ofAuto());
        try (TrainedModel model = TrainedModel.of(source.converter(), huggingFace(), weights, scales.linears())) {
            return new ExportWriter(this, model, request, mode, job).write();
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
        List<String> outputs =
                untrained().graph().outputs().stream().map(ValueInfo::name).toList();
        TrainingState state = checkpoint.state();
        try (ForwardSession trainer =
                        new ForwardSession(trained, outputs, policy(), state.parameters(), state.state(), device);
                Dataset data = data(options)) {
            double gate = options.gate().orElseGet(() -> ExportProof.gate(exported, policy(), scales));
            return ExportProof.of(trainer, exported, untrained(), data, gate, job.evaluation("proving", "samples"));
        }
    }

    private Dataset data(Prove.Options options) throws IOException {
        TrainingConfig config = run.config();
        Path file = options.data()
                .or(() -> config.data().eval())
                .orElse(config.data().train());
        Feed feed = Feed.inputsOf(untrained());
        Samples samples = DatasetTexts.samples(file, config.data(), feed, run.model());
        return new SampleDataset(samples, (int) Math.min(options.samples(), samples.count()));
    }

    /** Closes the model and the checkpoint. */
    @Override
    public void close() {
        checkpoint.close();
        source.close();
    }
}
