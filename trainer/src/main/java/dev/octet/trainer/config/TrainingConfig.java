package dev.octet.trainer.config;

import dev.octet.formats.graph.Graph;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.observe.DebugChanges;
import dev.octet.trainer.observe.DebugPlan;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.optimizer.Schedule;
import dev.octet.trainer.optimizer.WeightAveraging;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Configuration of a whole run.
 *
 * @param batchSize samples per micro-batch
 * @param gradientAccumulation micro-batches per step
 * @param steps length of the run and of its schedules; 0 as long as it follows from a number of samples that is not known yet
 * @param epochs how often the run reads its samples, above 0; empty where steps are given
 * @param seed for all random numbers
 * @param clipGradNorm largest allowed global gradient norm; empty for no clipping
 * @param averaging averages of the weights that the run keeps, by name
 * @param activations what a step keeps between forward and backward
 * @param precision the floating-point type that each operator computes in
 * @param freeze parameters that match one of these patterns (anywhere in the name) are not trained
 * @param trainOnly if not empty, only parameters that match one of these patterns are trained
 * @param adapter what is trained besides the frozen model; empty where the model itself is trained
 * @param ties which parameters that an export wrote twice are restored to one
 * @param evalEvery how often to evaluate; never for one at the end only. There are none without evaluation data
 * @param evalDelay steps, or epochs where {@code evalEvery} counts these, before the first evaluation may be; empty for none
 * @param evalOnStart whether to evaluate before the first step, too
 * @param fp8Health how often to measure what FP8 casts lose
 * @param guard how the run watches itself, and what it does about what it sees
 * @param debug what is looked at and changed layer by layer, in Transformer Engine's terms
 * @param offload what lies off the device between its uses; changes no number
 * @param distributed how several processes share out what the run keeps
 */
public record TrainingConfig(
        DataConfig data,
        LossConfig loss,
        int batchSize,
        int gradientAccumulation,
        long steps,
        OptionalDouble epochs,
        long seed,
        OptimizerConfig optimizer,
        ScheduleConfig schedule,
        OptionalDouble clipGradNorm,
        Map<String, WeightAveraging> averaging,
        ActivationSettings activations,
        PrecisionConfig precision,
        List<Pattern> freeze,
        List<Pattern> trainOnly,
        Optional<AdapterSettings> adapter,
        Ties.Restored ties,
        CheckpointConfig checkpoint,
        Cadence evalEvery,
        OptionalDouble evalDelay,
        boolean evalOnStart,
        NonFinitePolicy onNonFinite,
        DivergenceConfig divergence,
        Fp8HealthConfig fp8Health,
        GuardConfig guard,
        DebugSettings debug,
        Offload offload,
        DistributedConfig distributed) {
    public TrainingConfig {
        averaging = Collections.unmodifiableMap(new TreeMap<>(averaging));
        freeze = List.copyOf(freeze);
        trainOnly = List.copyOf(trainOnly);
    }

    private static final Map<String, NonFinitePolicy> POLICIES =
            Map.of("skip", NonFinitePolicy.SKIP, "stop", NonFinitePolicy.STOP);

    private static final Map<String, Ties.Restored> TIES =
            Map.of("embeddings", Ties.Restored.EMBEDDINGS, "all", Ties.Restored.ALL, "none", Ties.Restored.NONE);

    /**
     * Reads a configuration. Relative paths in it are resolved against its folder.
     *
     * @throws dev.octet.formats.error.InvalidOptionException for an unknown key, a value out of range or contradictory keys; the message
     *     has the line number
     * @throws IOException when the file cannot be read
     */
    public static TrainingConfig read(Path file) throws IOException {
        Path folder = file.toAbsolutePath().getParent();
        return of(YamlFile.read(file), folder == null ? Path.of("") : folder);
    }

    /**
     * Reads a configuration.
     *
     * @param folder base of relative paths
     * @throws dev.octet.formats.error.InvalidOptionException as in {@link #read}
     */
    public static TrainingConfig of(Section file, Path folder) {
        return file.read(s -> read(s, folder));
    }

    /**
     * Reads the configuration of a run that several processes do together.
     *
     * @param folder base of relative paths
     * @param ranks how many; where the file does not say how their gradients are averaged, they are in F32, in mode msamp by {@code min-scale}
     * @throws dev.octet.formats.error.InvalidOptionException as in {@link #read}, and when {@code precision.ranks} is another number
     */
    public static TrainingConfig of(Section file, Path folder, int ranks) {
        return of(RanksConfig.with(file, ranks), folder);
    }

    /**
     * The configuration with which one process plays so many data-parallel ranks: a run has the numbers that so many processes have with {@code file}.
     *
     * @param ranks how many, from 1 to {@link dev.octet.trainer.reduction.RankSettings#MOST}
     * @param option that asks for them, for messages
     * @throws dev.octet.formats.error.InvalidOptionException when there can't be so many, or {@code precision.ranks} is another number
     */
    public static Section simulating(Section file, int ranks, String option) {
        return RanksConfig.simulating(file, ranks, option);
    }

    /** Whether most of the outermost keys of a file are those of a configuration here. */
    public static boolean knows(Section file) {
        Set<String> keys = Arrays.stream(TrainingConfig.class.getRecordComponents())
                .map(c -> Settings.snakeCase(c.getName()))
                .collect(Collectors.toSet());
        long known = file.keys().stream().filter(keys::contains).count();
        return 2 * known > file.keys().size();
    }

    private static OptimizerConfig optimizer(Section s, PrecisionConfig precision) {
        OptimizerConfig own = s.section("optimizer").read(OptimizerConfig::read);
        return precision.msamp().map(p -> own.withMsamp(p, s)).orElse(own);
    }

    private static TrainingConfig read(Section s, Path folder) {
        OtherNames.refuse(s);
        OptionalDouble epochs = s.optionalNumber("epochs", Double.MIN_VALUE, Integer.MAX_VALUE)
                .map(OptionalDouble::of)
                .orElse(OptionalDouble.empty());
        if (epochs.isPresent() && s.has("steps")) {
            throw s.error("epochs", "steps and epochs are both given", "give one of them");
        }
        long steps = epochs.isPresent() ? 0 : s.requiredWhole("steps", 1, Long.MAX_VALUE);
        PrecisionConfig precision = s.section("precision").read(p -> PrecisionConfig.read(p, folder));
        int ranks = precision.ranks().ranks();
        long microBatches = s.whole("gradient_accumulation", 1, 1, Integer.MAX_VALUE);
        if (microBatches % ranks != 0) {
            throw s.section("precision")
                    .error(
                            "ranks",
                            ranks + " ranks cannot share " + microBatches + " micro-batches a step evenly",
                            "give gradient_accumulation: " + Math.ceilDiv(microBatches, (long) ranks) * ranks);
        }
        NonFinitePolicy onNonFinite = s.choice("on_non_finite", POLICIES, NonFinitePolicy.SKIP);
        TrainingConfig config = new TrainingConfig(
                s.section("data").read(d -> DataConfig.read(d, folder)),
                s.section("loss").read(l -> LossConfig.read(l, folder)),
                (int) s.whole("batch_size", 8, 1, Integer.MAX_VALUE),
                (int) s.whole("gradient_accumulation", 1, 1, Integer.MAX_VALUE),
                steps,
                epochs,
                s.whole("seed", 1, Long.MIN_VALUE, Long.MAX_VALUE),
                optimizer(s, precision),
                s.section("schedule").read(x -> ScheduleConfig.read(x, steps)),
                s.optionalNumber("clip_grad_norm", Double.MIN_VALUE, Double.MAX_VALUE)
                        .map(OptionalDouble::of)
                        .orElse(OptionalDouble.empty()),
                s.section("averaging").read(AveragingConfig::read),
                ActivationConfig.read(s),
                precision,
                s.patterns("freeze"),
                s.patterns("train_only"),
                AdapterConfig.read(s, folder, s.whole("seed", 1, Long.MIN_VALUE, Long.MAX_VALUE)),
                s.choice("ties", TIES, Ties.Restored.EMBEDDINGS),
                s.section("checkpoint").read(CheckpointConfig::read),
                Cadence.read(s, "eval_every", 0),
                s.optionalNumber("eval_delay", 0, Double.MAX_VALUE)
                        .map(OptionalDouble::of)
                        .orElse(OptionalDouble.empty()),
                s.flag("eval_on_start", false),
                onNonFinite,
                s.section("divergence").read(DivergenceConfig::read),
                Fp8HealthConfig.read(s, precision),
                GuardConfig.read(s, precision, onNonFinite, folder),
                DebugConfig.read(s, folder),
                s.section("offload").read(o -> OffloadConfig.read(o, folder)),
                s.section("distributed").read(DistributedConfig::read));
        if (config.data.neighbours() == DataConfig.Neighbours.UNSEEN
                && (config.loss.type() != LossConfig.Type.CAUSAL_LM
                        || config.loss.distillation().isPresent())) {
            throw s.section("data")
                    .error(
                            "pack",
                            "texts side by side in a sample are for causal-lm without a teacher",
                            "leave pack out, or train with loss: {type: causal-lm}");
        }
        requireEffect(s, config);
        RanksConfig.require(s, config);
        Schedule.requireOptions(config.schedule.type(), config.schedule.options(), config.optimizer.lr());
        config.guard.requireFree(s, config.debug);
        if (config.adapter.isPresent()) {
            if (config.precision.qat().isPresent()) {
                throw s.error(
                        "adapter",
                        "mode qat trains the weights that will be quantised, and an adapter leaves them frozen",
                        "merge the adapter first and train the merged model, or train it with adapter: {merge_aware:"
                                + " true} over a model that is quantised already");
            }
            for (String key : List.of("freeze", "train_only")) {
                if (s.has(key)) {
                    throw s.error(
                            key, "an adapter decides what is trained", "leave " + key + " out, or the adapter section");
                }
            }
        }
        if (!config.evalEvery.isNever() && config.data.eval().isEmpty()) {
            throw s.error(
                    "eval_every", "there is no evaluation data", "add data: {eval: FILE}, or leave eval_every out");
        }
        if (config.evalOnStart && config.data.eval().isEmpty()) {
            throw s.error(
                    "eval_on_start",
                    "there is no evaluation data",
                    "add data: {eval: FILE}, or leave eval_on_start out");
        }
        if (config.evalDelay.isPresent() && config.evalEvery.isNever()) {
            throw s.error(
                    "eval_delay",
                    "there are no evaluations before the end that could wait",
                    "add eval_every: epoch or a number of steps, or leave eval_delay out");
        }
        requireEvaluations(s, config);
        return config;
    }

    /** The best checkpoint, and schedules that follow evaluations, need some before the end. */
    private static void requireEvaluations(Section s, TrainingConfig config) {
        if (!config.evalEvery.isNever()) {
            return;
        }
        String fix = "add data: {eval: FILE} and eval_every: epoch, or a number of steps";
        if (config.schedule.type().isMeasured()) {
            throw s.section("schedule")
                    .error(
                            "type",
                            config.schedule.type().key() + " follows evaluations, and there are none before the end",
                            fix);
        }
        if (config.checkpoint.best().isPresent()) {
            throw s.section("checkpoint").error("best", "there are no evaluations before the end to choose by", fix);
        }
    }

    /** A schedule has none with an optimizer whose learning rate follows from the step. */
    private static void requireEffect(Section s, TrainingConfig config) {
        boolean relative = config.optimizer.rule().orElse(null) instanceof AdafactorRule a
                && a.relativeStep()
                && a.formula() == AdafactorRule.Formula.TRANSFORMERS;
        if (relative && s.has("schedule")) {
            throw s.error(
                    "schedule",
                    "with relative_step the learning rate follows from the step, and a schedule has no effect",
                    "leave schedule out, or set optimizer: {relative_step: false}");
        }
        boolean cycles = config.schedule.type().movesMomentum(config.schedule.options());
        if (cycles && !config.optimizer.cyclesMomentum()) {
            throw s.error(
                    "schedule",
                    config.schedule.type().key()
                            + " moves beta1 of adam and adamw in F32 states, not of this optimizer",
                    "add cycle_momentum: false to schedule");
        }
    }

    /**
     * How a model computes: {@link #precision}'s policy, with what {@link #debug} changes.
     *
     * @param graph the model's, canonical, ties restored
     * @throws dev.octet.formats.error.InvalidOptionException when {@code debug:} names no layer of the model, or contradicts itself
     */
    public DebugChanges changesFor(Graph graph) {
        return DebugChanges.of(DebugPlan.of(debug, LinearModule.of(graph)), precision.policy(), graph);
    }

    /**
     * This configuration with what follows from the number of training samples: the steps of so many epochs, the warm-up of these steps.
     *
     * @param samples at least 1
     * @throws dev.octet.formats.error.InvalidOptionException when the warm-up is longer than the run
     */
    public TrainingConfig forSamples(long samples) {
        if (epochs.isEmpty()) {
            return this;
        }
        long batches = Math.max(1, samples / batchSize);
        long all = Math.max(1, (long) Math.ceil(epochs.getAsDouble() * batches / gradientAccumulation));
        return with(all, schedule.forSteps(all), adapter);
    }

    /** This configuration with other settings of the adapter. */
    public TrainingConfig withAdapter(AdapterSettings other) {
        return with(steps, schedule, Optional.of(other));
    }

    private TrainingConfig with(long newSteps, ScheduleConfig newSchedule, Optional<AdapterSettings> newAdapter) {
        return new TrainingConfig(
                data,
                loss,
                batchSize,
                gradientAccumulation,
                newSteps,
                epochs,
                seed,
                optimizer,
                newSchedule,
                clipGradNorm,
                averaging,
                activations,
                precision,
                freeze,
                trainOnly,
                newAdapter,
                ties,
                checkpoint,
                evalEvery,
                evalDelay,
                evalOnStart,
                onNonFinite,
                divergence,
                fp8Health,
                guard,
                debug,
                offload,
                distributed);
    }
}
