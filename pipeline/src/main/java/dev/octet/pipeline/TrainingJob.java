package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.DatasetTexts;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.layout.StoredGrids;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.TrainingParts;
import dev.octet.trainer.adapter.AdapterInputs;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.MergeAwareness;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.DataConfig;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.qat.CalibratedRanges;
import dev.octet.trainer.qat.ScaleLearning.Calibration;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * A trainer with everything open that its configuration names: model, teacher, samples, tokenizer, device. For callers that train step by step;
 * {@link Train} does a whole run in a folder.
 *
 * <pre>{@code
 * try (TrainingJob job = TrainingJob.open(Path.of("model.onnx"), Path.of("train.yaml"))) {
 *     for (long step = 1; step <= job.config().steps(); step++) {
 *         StepResult result = job.trainer().step(step);
 *     }
 * }
 * }</pre>
 *
 * <p>Not thread-safe. Closing it closes all that it opened, the trainer too.
 */
public final class TrainingJob implements AutoCloseable {
    private final Deque<Closing> open = new ArrayDeque<>();
    private final TrainingParts parts;
    private final Trainer trainer;

    /** Opens the device that is trained on. */
    @FunctionalInterface
    interface DeviceOpening {
        /** The device, to be closed by the caller. */
        Device open(int threads);
    }

    private interface Closing {
        void close() throws IOException;
    }

    private TrainingJob(Path model, TrainingConfig config, DeviceOpening where, Job job, Collectives world)
            throws IOException {
        boolean opened = false;
        try {
            OpenedModel opening = config.adapter().isPresent() ? OpenedModel.asStored(model) : OpenedModel.of(model);
            open.push(opening::close);
            boolean apart = config.data().neighbours() == DataConfig.Neighbours.UNSEEN;
            OpenedModel student = apart ? opening.forDocuments() : opening;
            Device device = where.open(job.threads());
            open.push(device::close);
            Optional<GraphSource> teacher = teacher(config.loss());
            Samples train = samples(config.data().train(), config, student.canonical(), model);
            Optional<Samples> eval = Optional.empty();
            if (config.data().eval().isPresent()) {
                eval = Optional.of(samples(config.data().eval().get(), config, student.canonical(), model));
            }
            parts = new TrainingParts(
                    stamped(config, student, model),
                    student.source(),
                    teacher,
                    train,
                    eval,
                    ranges(model, config, student),
                    adapter(model, config),
                    digests(model, config));
            trainer = Trainer.of(parts, device, world);
            open.push(trainer::close);
            opened = true;
        } finally {
            if (!opened) {
                close();
            }
        }
    }

    /**
     * Opens all that a configuration names, to be trained on the processor with all its cores.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param config what to do, as YAML
     * @throws dev.octet.formats.error.OctetException when configuration, model and data do not fit together
     * @throws IOException when reading fails
     */
    public static TrainingJob open(Path model, Path config) throws IOException {
        return open(model, TrainingConfig.read(config), DeviceName.CPU, Job.defaults());
    }

    /**
     * Opens all that a configuration names.
     *
     * @param device where to compute
     * @param job how many threads
     * @throws dev.octet.formats.error.OctetException when configuration, model and data do not fit together, or the device is missing
     * @throws IOException when reading fails
     */
    public static TrainingJob open(Path model, TrainingConfig config, DeviceName device, Job job) throws IOException {
        return open(model, config, device, job, Collectives.alone());
    }

    /**
     * Opens all that a configuration names, for one rank of a run that several do together.
     *
     * @param device as there
     * @param job as there
     * @param world the ranks, as many as {@code config} has; the caller closes it
     * @throws dev.octet.formats.error.OctetException as there, and when the run does something that ranks cannot do together
     * @throws IOException when reading fails
     */
    public static TrainingJob open(Path model, TrainingConfig config, DeviceName device, Job job, Collectives world)
            throws IOException {
        return openOn(device::open, model, config, job, world);
    }

    /** The same on a device that is opened otherwise. */
    static TrainingJob openOn(DeviceOpening device, Path model, TrainingConfig config, Job job, Collectives world)
            throws IOException {
        return new TrainingJob(model, config, device, job, world);
    }

    /** What training that is aware of the merge must know of the base's layout. */
    private static TrainingConfig stamped(TrainingConfig config, OpenedModel base, Path model) {
        AdapterSettings adapter = config.adapter().orElse(null);
        if (adapter == null || !adapter.isMergeAware()) {
            return config;
        }
        ModelSource.HuggingFace checkpoint = base.file().huggingFace().orElse(null);
        if (checkpoint == null || checkpoint.layout().equals("plain")) {
            throw new InvalidOptionException(
                    "merge_aware is for quantised bases, and the weights of this one are floats",
                    model.toString(),
                    "leave merge_aware out: a merge into floats keeps what was trained; or quantise the base first");
        }
        return config.withAdapter(adapter.withConfig(MergeAwareness.stamped(
                adapter.config(), checkpoint.layout(), StoredGrids.of(checkpoint.layout(), checkpoint.config()))));
    }

    /** What the run's adapter needs besides its configuration. */
    private AdapterInputs adapter(Path model, TrainingConfig config) throws IOException {
        if (config.adapter().isEmpty()) {
            return AdapterInputs.NONE;
        }
        AdapterSettings settings = config.adapter().get();
        Map<String, Tensor> tensors = Map.of();
        if (settings.from().isPresent()) {
            PeftAdapter adapter = PeftAdapter.open(settings.from().get());
            open.push(adapter::close);
            tensors = adapter.tensors();
        }
        Optional<String> text = settings.from().isPresent() ? Optional.empty() : settings.initText();
        return new AdapterInputs(
                model.toAbsolutePath().normalize().toString(),
                tensors,
                text.isPresent() ? DatasetTexts.tokens(text.get(), config.data(), model) : List.of());
    }

    /** What calibration saw, where the configuration names a file of it. */
    private static Optional<CalibratedRanges> ranges(Path model, TrainingConfig config, OpenedModel opened)
            throws IOException {
        Calibration from =
                config.precision().qat().flatMap(q -> q.scales().calibration()).orElse(null);
        if (from == null) {
            return Optional.empty();
        }
        Path file = from.statistics();
        Statistics statistics = StatisticsFile.read(file);
        CalibratedInputs.requireOf(statistics, opened.file().digest(), model, file);
        Converter.requireComplete(statistics);
        return Optional.of(new CalibratedRanges(
                ModuleTaps.withValues(opened.canonical(), statistics).tensors(),
                from.calibrator(),
                file.toString(),
                CalibrateCommandLine.of(model, file, "--force")));
    }

    private Optional<GraphSource> teacher(LossConfig loss) throws IOException {
        if (loss.distillation().isEmpty()) {
            return Optional.empty();
        }
        OpenedModel teacher = OpenedModel.of(loss.distillation().get().teacher());
        open.push(teacher::close);
        return Optional.of(teacher.source());
    }

    private Samples samples(Path file, TrainingConfig config, GraphModel graph, Path model) throws IOException {
        Samples samples = DatasetTexts.samples(
                file, config.data(), Feed.of(graph, config.loss()), model, DatasetTexts.purpose(config));
        open.push(samples::close);
        return samples;
    }

    private static Map<String, String> digests(Path model, TrainingConfig config) throws IOException {
        Map<String, String> digests = new TreeMap<>();
        digests.put("model", OpenedModel.digest(model));
        if (config.loss().distillation().isPresent()) {
            digests.put(
                    "teacher",
                    OpenedModel.digest(config.loss().distillation().get().teacher()));
        }
        Optional<Calibration> calibration =
                config.precision().qat().flatMap(q -> q.scales().calibration());
        if (calibration.isPresent()) {
            digests.put("statistics", Sha256.of(calibration.get().statistics()));
        }
        Optional<Path> from = config.adapter().flatMap(AdapterSettings::from);
        if (from.isPresent()) {
            digests.put("adapter", Sha256.of(from.get().resolve(PeftAdapter.WEIGHTS_FILE)));
        }
        return digests;
    }

    /** What is done, with all that follows from the number of samples: the steps of so many epochs. */
    public TrainingConfig config() {
        return parts.config();
    }

    /** The trainer. */
    public Trainer trainer() {
        return trainer;
    }

    /** The samples that are trained on. */
    public Samples train() {
        return parts.train();
    }

    /** The samples that are evaluated on; empty for none. */
    public Optional<Samples> eval() {
        return parts.eval();
    }

    @Override
    public void close() throws IOException {
        IOException failure = null;
        while (!open.isEmpty()) {
            try {
                open.pop().close();
            } catch (IOException e) {
                if (failure == null) {
                    failure = e;
                } else {
                    failure.addSuppressed(e);
                }
            }
        }
        if (failure != null) {
            throw failure;
        }
    }
}
