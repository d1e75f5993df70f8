package dev.octet.trainer;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Product;
import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.adapter.SavedAdapter;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.StoredWeights;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.config.CheckpointConfig.Best;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.OptimizerConfig;
import dev.octet.trainer.config.Settings;
import dev.octet.trainer.config.StatesConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.data.MicroBatches;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.data.SkippedBatches;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.hook.AdapterPlan;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.hook.StepWork;
import dev.octet.trainer.hook.TrainingHook.EvaluationReport;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.observe.DebugChanges;
import dev.octet.trainer.observe.DebugPlan;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.TensorDumps;
import dev.octet.trainer.optimizer.MeasuredRate;
import dev.octet.trainer.optimizer.OwnRate;
import dev.octet.trainer.optimizer.Schedule;
import dev.octet.trainer.optimizer.StepRate;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.Fp8Choice;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.qat.FoldedScales;
import dev.octet.trainer.qat.QatSettings;
import dev.octet.trainer.qat.QuantizedGraph;
import dev.octet.trainer.qat.ScaleLearning;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.Examination;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Excerpt;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.ZeroStage;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateTensors;
import dev.octet.trainer.step.AdapterSaving;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.step.ProductWatch;
import dev.octet.trainer.step.ReferenceModel;
import dev.octet.trainer.step.SharedLayers;
import dev.octet.trainer.step.StartingScales;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.step.Teacher;
import dev.octet.trainer.step.TensorWatch;
import dev.octet.trainer.step.TrainingSession;
import dev.octet.trainer.step.TrainingSetup;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Trains a model, either step by step:
 *
 * <pre>{@code
 * try (Trainer trainer = Trainer.of(parts, device)) {
 *     for (long step = 1; step <= 100; step++) {
 *         StepResult result = trainer.step(step);
 *     }
 * }
 * }</pre>
 *
 * or with {@link #run} as a run in a folder, with metrics and checkpoints. Equal parts give bit-identical results, on any number of threads
 * and whether or not the run was interrupted. Not thread-safe.
 */
public final class Trainer implements AutoCloseable {
    /** File in the folder of a run that the process which trains holds a lock on, see {@link FolderLock#isHeld}. */
    public static final String LOCK = ".octet-lock";

    private static final String TOKENS = "input_ids";
    private static final String OWN_SUMS = "; FP8 products add up as the device has it (precision.accumulation: f32)";
    private static final int SHOWN_TIES = 4;
    private static final int SHOWN_SAMPLES = 64;

    /** How many micro-batches of an evaluation stages of a pipeline may be apart. */
    private static final int AHEAD = 16;

    private final TrainingParts parts;
    private final Device device;
    private final Collectives world;
    private final RankGroups groups;
    private final GraphSource model;
    private final List<Tie> ties;
    private final Optional<AdaptedGraph> adapted;
    private final Optional<QuantizedGraph> quantized;
    private final GraphSource floats;
    private final Parameters parameters;
    private final Set<String> stored;
    private final Set<String> trained;
    private final DebugPlan debug;
    private final DebugChanges debugChanges;
    private final TrainingSession session;
    private final @Nullable Teacher teacher;
    private final @Nullable ReferenceModel reference;
    private final MicroBatches batches;
    private final @Nullable MicroBatches evalBatches;
    private final Schedule schedule;
    private final Optional<MeasuredRate> measuredRate;
    private SkippedBatches skipped = SkippedBatches.NONE;
    /** Batches that were drawn while the device computed. */
    private @Nullable Drawn ahead;

    private boolean started;
    private boolean held;
    private double dataSeconds;

    private Trainer(TrainingParts parts, Device device, Collectives world) {
        TrainingConfig config = parts.config();
        RankSupport.require(config, device, world);
        this.parts = parts;
        this.device = device;
        this.world = world;
        this.groups = config.distributed().groups(world);
        this.ties = Ties.find(parts.model().graph().graph());
        GraphSource base = parts.model().withTies(restored());
        requireOriginals(config, restored());
        this.adapted = config.adapter()
                .map(a -> a.adapt(base.graph(), initialValues(), parts.adapter().promptTokens()));
        this.floats = adapted.map(base::withAdapter).orElse(base);
        this.quantized = config.precision().qat().map(q -> QuantizedGraph.of(floats.graph(), q, config.seed()));
        quantized.ifPresent(q -> parts.ranges().ifPresent(r -> r.require(q)));
        this.model = quantized.map(q -> floats.with(q.model())).orElse(floats);
        Parameters found = Parameters.of(floats.graph().graph());
        this.parameters = adapted.map(a -> found.with(floats.graph().graph(), a.trained()))
                .or(() -> quantized.map(q -> found.with(q.model().graph(), q.parameters())))
                .orElse(found);
        this.trained = adapted.isPresent() ? adapted.get().trained() : trained(config);
        this.stored = adapted.map(a -> StoredWeights.of(a.model().graph(), a.trained()))
                .orElse(Set.of());
        config.optimizer().noDecay().forEach(p -> requireMatch(p, parameters));
        this.batches = config.data().shuffle()
                ? MicroBatches.shuffled(parts.train(), config.batchSize(), config.seed())
                : MicroBatches.inOrder(parts.train(), config.batchSize());
        this.evalBatches =
                parts.eval().map(e -> evaluation(e, config.batchSize())).orElse(null);
        this.schedule = config.schedule().schedule(config.optimizer().lr(), config.steps());
        this.measuredRate = MeasuredRate.of(schedule);
        this.debug = DebugPlan.of(config.debug(), LinearModule.of(floats.graph().graph()));
        this.debugChanges = config.changesFor(floats.graph().graph());
        this.session = new TrainingSession(setup(policyFor(device)), device, config.offload(), groups);
        try {
            this.teacher = parts.teacher()
                    .map(t -> Teacher.of(t, model, config.loss().outputOf(model.graph()), device))
                    .orElse(null);
            this.reference = config.loss().type() == LossConfig.Type.DPO
                    ? new ReferenceModel(base, config.loss(), referencePolicy(), device)
                    : null;
        } catch (RuntimeException e) {
            session.close();
            throw e;
        }
    }

    /**
     * Loads the model's weights onto the device.
     *
     * @throws InvalidOptionException when a pattern in the configuration matches nothing
     * @throws dev.octet.formats.error.InvalidDataException when there is less data than one batch
     */
    public static Trainer of(TrainingParts parts, Device device) {
        return of(parts, device, Collectives.alone());
    }

    /**
     * The trainer of one rank of a run that several do together. All ranks call the same methods in the same order; with equal parts they have equal weights after each
     * step. Checkpoints have the bytes of the run in which one process plays all ranks. {@link #run} writes only on the first rank.
     *
     * @param world the ranks, as many as {@code parts} has in its precision; the caller closes it
     * @throws InvalidOptionException as in {@link #of(TrainingParts, Device)}, and when the run does something that ranks cannot do together
     */
    public static Trainer of(TrainingParts parts, Device device, Collectives world) {
        return new Trainer(parts, device, world);
    }

    /** Rejects a pattern that matches no parameter: it is most likely mistyped. */
    private static void requireMatch(Pattern pattern, Parameters parameters) {
        if (parameters.names().stream().noneMatch(n -> pattern.matcher(n).find())) {
            throw new InvalidOptionException(
                    "pattern '" + pattern + "' matches no parameter",
                    "optimizer: {no_decay: ...}, " + parameters.names().size() + " parameters",
                    "`octet inspect --parameters` lists them");
        }
    }

    /** Of the parameters that quantisers read those that are learned; these also where {@code train_only} names other parameters alone. */
    private Set<String> trained(TrainingConfig config) {
        Set<String> all = new TreeSet<>(parameters.trained(config.freeze(), config.trainOnly()));
        quantized.ifPresent(q -> {
            q.parameters().stream().filter(p -> !q.learned().contains(p)).forEach(all::remove);
            q.learned().stream()
                    .filter(p ->
                            config.freeze().stream().noneMatch(f -> f.matcher(p).find()))
                    .forEach(all::add);
        });
        return all;
    }

    private List<Tie> restored() {
        return parts.config().ties().of(ties);
    }

    /**
     * Rejects a pattern that matches only the copy of a tied pair: the two are one parameter under the original's name, so the pattern
     * would have no effect.
     */
    private static void requireOriginals(TrainingConfig config, List<Tie> ties) {
        List<Pattern> all = new ArrayList<>(config.freeze());
        all.addAll(config.trainOnly());
        all.addAll(config.optimizer().noDecay());
        for (Tie tie : ties) {
            for (Pattern p : all) {
                if (p.matcher(tie.copy()).find() && !p.matcher(tie.original()).find()) {
                    throw new InvalidOptionException(
                            "pattern '" + p + "' matches '" + tie.copy() + "', which is tied to '" + tie.original()
                                    + "'",
                            "ties: " + config.ties().name().toLowerCase(Locale.ROOT),
                            "use '" + tie.original() + "', or set ties: none to train the two separately");
                }
            }
        }
    }

    private InitialValues initialValues() {
        TrainingConfig config = parts.config();
        Optional<Path> from = config.adapter().flatMap(AdapterSettings::from);
        return from.isPresent()
                ? InitialValues.continuing(parts.adapter().tensors(), from.get().toString())
                : InitialValues.seeded(config.seed());
    }

    private TrainingSetup setup(PrecisionPolicy policy) {
        TrainingConfig config = parts.config();
        return new TrainingSetup(
                model,
                parameters.without(stored),
                stored,
                trained,
                config.loss(),
                policy,
                config.precision().scaling(),
                schedule.of(config.optimizer().optimizer()),
                config.optimizer().noDecay(),
                config.clipGradNorm().orElse(Double.POSITIVE_INFINITY),
                List.copyOf(config.averaging().values()),
                stateForms(),
                config.activations().at(config.offload().activations()),
                config.precision().ranks(),
                ownRate(),
                shards(config));
    }

    private ShardSettings shards(TrainingConfig config) {
        int microBatches =
                config.gradientAccumulation() / config.precision().ranks().ranks();
        ShardSettings shards = config.distributed().shards(microBatches, adapts());
        return readsWeights(config) ? shards.showingWeights() : shards;
    }

    /** Whether something of the run looks at the weights of Linears as they are before they are quantised. */
    private static boolean readsWeights(TrainingConfig config) {
        boolean measures =
                config.guard().watchesProducts() && config.guard().replay().isEmpty();
        return measures || config.debug().reads();
    }

    private OwnRate ownRate() {
        if (quantized.isEmpty()) {
            return OwnRate.NONE;
        }
        ScaleLearning scales = parts.config().precision().qat().orElseThrow().scales();
        boolean normalizes = parts.config().optimizer().optimizer().normalizes();
        Map<String, Double> factors = new TreeMap<>(quantized.get().rateFactors(scales, normalizes));
        factors.keySet().retainAll(trained);
        return new OwnRate(factors);
    }

    /**
     * Before the first step of a new run, takes the ranges of inputs from calibration, or from the first micro-batches. The scales of a run that is resumed are the checkpoint's.
     *
     * @throws InvalidOptionException when a layer with learned scales is never executed
     */
    private void start() throws IOException {
        if (started || quantized.isEmpty()) {
            return;
        }
        started = true;
        try (Arena arena = Arena.ofConfined()) {
            List<MicroBatch> first = new ArrayList<>();
            int count = (int) Math.min(
                    parts.config().precision().qat().orElseThrow().scales().startBatches(), batches.perEpoch());
            for (int i = 0; i < count; i++) {
                first.add(draw(batches, i, arena));
            }
            StartingScales starting = new StartingScales(quantized.get(), floats, session.policy(), device);
            starting.requireExecuted(session.program(first.getFirst()));
            if (!session.isRestored()) {
                session.put(
                        parts.ranges().isPresent()
                                ? parts.ranges().get().start(quantized.get(), arena)
                                : starting.of(first, session.whole(session.parameters(arena), arena), arena));
            }
        }
    }

    /** Rounds scales to the type that they will be stored in, and holds them, from the step on that the configuration names. */
    private void fold(long step) {
        ScaleLearning scales =
                parts.config().precision().qat().map(QatSettings::scales).orElse(ScaleLearning.DEFAULT);
        if (held || scales.foldAt().isEmpty() || step < scales.foldAt().getAsLong()) {
            return;
        }
        held = true;
        session.hold();
        try (Arena arena = Arena.ofConfined()) {
            session.put(FoldedScales.of(quantized.orElseThrow(), scales.type(), session.parameters(arena), arena));
        }
    }

    /** How the tensors of the run are kept between steps. */
    private StateForms stateForms() {
        return stateForms(parts.config().optimizer().states());
    }

    private StateForms stateForms(StatesConfig states) {
        Set<String> coded = new TreeSet<>(trained);
        coded.removeAll(quantized.map(QuantizedGraph::parameters).orElse(Set.of()));
        if (states.onlyMatrices()) {
            coded.retainAll(parameters.all().stream()
                    .filter(p -> p.use() == Parameter.Use.WEIGHT)
                    .map(Parameter::name)
                    .toList());
        }
        StateForms forms = states.forms(parts.config().optimizer().optimizer());
        Optional<MsampPolicy> msamp = parts.config().precision().msamp();
        if (msamp.isPresent()) {
            return forms.withGradients(msamp.get().gradients()).onlyOf(msampMatrices(msamp.get()));
        }
        return forms.isF32() ? forms : forms.onlyOf(coded);
    }

    /** What MS-AMP keeps in few bits: all matrices; with its oddities those of Linears in FP8 alone. */
    private Set<String> msampMatrices(MsampPolicy policy) {
        Set<String> linears = policy.fp8(model.graph().graph()).layers().stream()
                .map(Fp8Layer::weight)
                .collect(Collectors.toSet());
        return parameters.all().stream()
                .filter(p -> trained.contains(p.name()))
                .filter(p -> policy.isOriginal()
                        ? linears.contains(p.name())
                        : p.tensor().shape().rank() == 2)
                .map(Parameter::name)
                .collect(Collectors.toSet());
    }

    /**
     * State of a checkpoint, kept as this run keeps it: moments of another engine are decoded and encoded anew, codes of its weights left out, since the checkpoint has
     * the weights in F32, too.
     */
    Map<String, Tensor> converted(Map<String, Tensor> state, TrainingState from) {
        OptimizerConfig config = parts.config().optimizer();
        StatesConfig before = StatesConfig.of(from.settings());
        if (before.engine().equals(config.states().engine())) {
            return state;
        }
        StateForms old = stateForms(before);
        StateForms now = stateForms();
        Map<String, Tensor> all = new TreeMap<>(state);
        for (Parameter p : parameters.all()) {
            Shape shape = p.tensor().shape();
            StateForm kept = old.parameter(p.name(), shape);
            kept.names(p.name(), shape).forEach(all::remove);
            all.remove(TrainingSession.codesName(p.name()));
            for (String what : StatesConfig.buffers(config.optimizer())) {
                String name = UpdateProgram.stateName(what, p.name());
                Tensor codes = all.get(name);
                if (codes != null) {
                    StateForm form = old.memory(what, shape);
                    Tensor numbers = StateTensors.decode(form, name, shape, codes, state, Arena.ofAuto());
                    form.names(name, shape).forEach(all::remove);
                    all.putAll(StateTensors.encode(now.memory(what, shape), numbers));
                }
            }
        }
        return all;
    }

    /** The configured policy, or its base policy where the device does not multiply FP8 and the configuration allows that. */
    private PrecisionPolicy policyFor(Device on) {
        PrecisionPolicy policy = debugChanges.policy();
        if (policy instanceof MsampPolicy && !on.multipliesFp8()) {
            throw new UnavailableException(
                    "the device does not multiply FP8: NVIDIA GPUs do from compute capability 8.9 on",
                    on.name() + ", " + on.products() + "; precision.mode: msamp",
                    "use another GPU or the CPU");
        }
        if (policy instanceof Fp8Policy asked && asked.settings().likeHopper() && !on.addsLikeHopper()) {
            throw new InvalidOptionException(
                    "this device does not add up as Hopper's FP8 units do",
                    on.name() + ", " + on.products() + "; precision.accumulation: hopper",
                    "leave the key out, or use the CPU or a GPU of compute capability 9.0");
        }
        if (!(policy instanceof Fp8Policy fp8) || on.multipliesFp8() || !fp8.multipliesCodes()) {
            return policy;
        }
        if (fp8.replaceable()) {
            return fp8.base();
        }
        throw new UnavailableException(
                "the device does not multiply FP8: NVIDIA GPUs do from compute capability 8.9 on",
                on.name() + ", " + on.products() + "; precision.mode: fp8",
                "use another GPU, or set precision.on_unsupported: base (Linears in the base type), or fake_quantize:"
                        + " true");
    }

    /** The policy of a reference: that of the run, of FP8 what the rest of the model computes in, since its scales move. */
    private PrecisionPolicy referencePolicy() {
        PrecisionPolicy policy = policyFor(device);
        return switch (policy) {
            case Fp8Policy fp8 -> fp8.base();
            case MsampPolicy msamp -> msamp.base();
            default -> policy;
        };
    }

    /** All samples in the file's order; without the last, incomplete batch where the model has a fixed number of rows. */
    private MicroBatches evaluation(Samples samples, int batchSize) {
        int size = (int) Math.min(batchSize, samples.count());
        boolean fixedRows =
                model.graph().graph().requiredInputs().stream().map(Feed::rows).anyMatch(OptionalLong::isPresent);
        return fixedRows ? MicroBatches.inOrder(samples, size) : MicroBatches.ofAll(samples, size);
    }

    TrainingParts parts() {
        return parts;
    }

    TrainingSession session() {
        return session;
    }

    /** The ranks of the run, and those of them that do something together. */
    RankGroups groups() {
        return groups;
    }

    /** The ranks of the run. */
    Collectives world() {
        return world;
    }

    /** The configured policy where the run computes in FP8; empty where it does not, or where the device cannot. */
    public Optional<Fp8Policy> fp8Policy() {
        return policyFor(device) instanceof Fp8Policy fp8 ? Optional.of(fp8) : Optional.empty();
    }

    /** Computes by another policy from the next step on; see {@link TrainingSession#usePolicy}. */
    public void usePolicy(PrecisionPolicy policy) {
        session.usePolicy(policy);
    }

    /** The learning rates of the run. */
    Schedule schedule() {
        return schedule;
    }

    /** Learning rate of a step; steps count from 1. */
    public double learningRate(long step) {
        return parts.config().optimizer().optimizer().rate(scheduled(step).lr(), step);
    }

    /** What the schedule says for a step, from which some optimizers make a rate of their own. */
    private StepRate scheduled(long step) {
        return measuredRate.map(m -> StepRate.of(m.rate())).orElseGet(() -> schedule.at(step - 1));
    }

    /** The rate that follows evaluations, where the schedule is of that kind. */
    Optional<MeasuredRate> measuredRate() {
        return measuredRate;
    }

    /** After an evaluation of the run: a schedule that follows evaluations compares what the best checkpoint is chosen by, or the loss. */
    void evaluated(EvaluationReport report) {
        String by = parts.config().checkpoint().best().map(Best::metric).orElse("loss");
        measuredRate.ifPresent(m -> m.evaluated(report.measure(by).orElse(Double.NaN)));
    }

    /** How many epochs end with a step, most often 0 or 1. */
    long epochsEndingWith(long step) {
        return microBatches(step) / batches.perEpoch() - microBatches(step - 1) / batches.perEpoch();
    }

    /** How often the training samples have been read after a step, from 1. */
    double epoch(long step) {
        return (double) microBatches(step) / batches.perEpoch();
    }

    /** Number of micro-batches up to a step, from 0, those left out included. */
    long microBatches(long step) {
        return step == 0 ? 0 : (skipped.of(step) + 1) * parts.config().gradientAccumulation();
    }

    /** Leaves batches out from the next step on: a step's data follow from its number and these. */
    public void skip(SkippedBatches batchesToSkip) {
        skipped = batchesToSkip;
    }

    /**
     * A Linear in FP8 as configured, or those of experts that are computed as one, and which products are computed: gradients that nothing wants are not.
     *
     * @param node that computes them
     * @param module what messages call it
     */
    record Fp8Products(String node, String module, List<Fp8Layer> layers, Set<Product> products) {}

    /**
     * The Linears in FP8 of the programs of the first step.
     *
     * @throws IOException when data cannot be read
     */
    List<Fp8Products> fp8Products() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MicroBatch first = draw(batches, 0, arena);
            Map<String, List<String>> experts = session.experts(first);
            Map<String, Set<Product>> computed = ProductWatch.products(session.program(first), experts);
            Map<String, String> groups = new HashMap<>();
            experts.forEach((node, own) -> own.forEach(e -> groups.put(e, node)));
            Map<String, List<Fp8Layer>> byNode = new LinkedHashMap<>();
            for (Fp8Layer l : session.fp8(first).layers()) {
                byNode.computeIfAbsent(groups.getOrDefault(l.node(), l.node()), _ -> new ArrayList<>())
                        .add(l);
            }
            List<Fp8Products> all = new ArrayList<>();
            byNode.forEach((node, layers) -> {
                Fp8Layer one = layers.getFirst();
                String module = layers.size() == 1 ? one.module() : LinearModule.ofAllExperts(one.module());
                all.add(new Fp8Products(node, module, layers, computed.getOrDefault(one.node(), Set.of())));
            });
            return all;
        }
    }

    /** Whether this is a rank that keeps its share of the states, or its part of the model, and writes it into checkpoints. */
    boolean sharesStates() {
        return cutsModel()
                || (!groups.data().isAlone() && parts.config().distributed().zero() != ZeroStage.NONE);
    }

    /** Whether an adapter is trained. */
    boolean adapts() {
        return adapted.isPresent();
    }

    /** Whether ranks have different parts of the model. */
    boolean cutsModel() {
        return parts.config().distributed().cutsModel();
    }

    /** Builds the programs of the first step. */
    void prepare() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            session.prepare(draw(batches, 0, arena));
        }
    }

    /** Whether there is data to evaluate on. */
    boolean evaluates() {
        return evalBatches != null;
    }

    /**
     * Builds the programs of the first step and reports what they need.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when an operator cannot be trained
     * @throws IOException when data cannot be read
     */
    public RunPlan plan() throws IOException {
        Fp8Choice fp8;
        ActivationPlan activations;
        StepWork work;
        try (Arena arena = Arena.ofConfined()) {
            MicroBatch first = draw(batches, 0, arena);
            session.prepare(first);
            fp8 = session.fp8(first);
            activations = session.activations(first);
            work = session.work(first);
        }
        long trainedElements = 0;
        long frozenElements = 0;
        Map<String, Shape> shapes = session.parameterShapes();
        for (Map.Entry<String, Shape> p : shapes.entrySet()) {
            long n = p.getValue().elementCount();
            trainedElements += trained.contains(p.getKey()) ? n : 0;
            frozenElements += trained.contains(p.getKey()) ? 0 : n;
        }
        for (String name : stored) {
            Initializer constant =
                    Objects.requireNonNull(model.graph().graph().initializers().get(name));
            frozenElements += constant.spec().orElseThrow().shape().elementCount();
        }
        Set<String> used = new TreeSet<>(trained);
        used.retainAll(shapes.keySet());
        long elements = trainedElements;
        long frozen = frozenElements;
        return new RunPlan(
                device.name(),
                device.products(),
                parts.config().precision().policy().name(),
                fp8.layers().size(),
                fp8.kept(),
                List.copyOf(used),
                trainedElements,
                frozenElements,
                session.residentBytes() + besides(Teacher::lastingBytes, ReferenceModel::lastingBytes),
                session.temporaryBytes() + besides(Teacher::temporaryBytes, ReferenceModel::temporaryBytes),
                notes(used, activations),
                adapted.map(a -> memory(a, elements, frozen)),
                Optional.of(statePlan(elements)),
                memory(activations),
                Optional.of(work));
    }

    /**
     * What each stage of sharing out has a rank keep, whether or not the ranks are there; empty for a run without ranks, and where not all lies in memory.
     *
     * @throws IOException when data cannot be read
     */
    public Optional<ZeroPlan> zeroPlan() throws IOException {
        if (parts.config().offload().isOn()) {
            return Optional.empty();
        }
        try (Arena arena = Arena.ofConfined()) {
            return session.zeroPlan(draw(batches, 0, arena));
        }
    }

    /**
     * What each stage of a pipeline has and does, whether or not the ranks are there; empty for a run without stages.
     *
     * @throws IOException when data cannot be read
     */
    public Optional<StagePlan> stagePlan() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return session.stagePlan(draw(batches, 0, arena));
        }
    }

    /** Bytes of the models that the trained one learns from. */
    private long besides(ToLongFunction<Teacher> ofTeacher, ToLongFunction<ReferenceModel> ofReference) {
        return (teacher == null ? 0 : ofTeacher.applyAsLong(teacher))
                + (reference == null ? 0 : ofReference.applyAsLong(reference));
    }

    private Optional<RunPlan.ActivationMemory> memory(ActivationPlan plan) {
        String settings =
                parts.config().activations().at(parts.config().offload().activations()).keys().entrySet().stream()
                        .map(e -> e.getKey() + ": " + e.getValue())
                        .collect(Collectors.joining(", "));
        return settings.isEmpty()
                ? Optional.empty()
                : Optional.of(new RunPlan.ActivationMemory(settings, plan.before(), plan.after(), plan.again()));
    }

    private StatePlan statePlan(long trainedElements) {
        StatesConfig states = parts.config().optimizer().states();
        boolean byPrecision =
                states.equals(StatesConfig.F32) && !session.states().isF32();
        return session.statePlan(byPrecision ? "as precision has it" : states.text(), trainedElements);
    }

    /** What an adapter's training keeps between steps; all weights would have as many gradients and moments for each element. */
    private AdapterPlan memory(AdaptedGraph graph, long trainedElements, long frozenElements) {
        long adapter = trainedElements * Float.BYTES;
        long states = session.stateBytes();
        double all = (double) states / Math.max(1, trainedElements) * frozenElements;
        return new AdapterPlan(graph.title(), session.lastingBytes() - states - adapter, adapter, states, (long) all);
    }

    private List<String> notes(Set<String> used, ActivationPlan activations) {
        Set<String> idle = new TreeSet<>(trained);
        idle.removeAll(used);
        List<String> notes = new ArrayList<>(parts.config().precision().notes());
        muonNote().ifPresent(notes::add);
        ranksNote().ifPresent(notes::add);
        session.cut()
                .ifPresent(cut -> notes.add("tensor: each of " + groups.tensor().size() + " ranks has a part of "
                        + cut.shared().size() + " of "
                        + (cut.shared().size() + cut.whole().size())
                        + " Linears, here " + cut.elements(false) + " of " + cut.elements(true) + " elements"
                        + (cut.whole().isEmpty() ? "" : "; whole: " + some(cut.whole()))));
        notes.addAll(debug.notes());
        notes.addAll(debugChanges.notes());
        if (!policyFor(device).equals(debugChanges.policy())) {
            notes.add("precision.on_unsupported: " + device.name()
                    + " does not multiply FP8, so all Linears compute in the base type");
        }
        List<Tie> restored = restored();
        String setting = " (ties: " + parts.config().ties().name().toLowerCase(Locale.ROOT) + ")";
        if (parts.config().offload().isOn()) {
            notes.add(parts.config().offload().text(session.offloadedBytes() + activations.hosted()));
        }
        tinyTensors(used).ifPresent(notes::add);
        note(notes, "tied: exported twice, trained as one parameter" + setting, restored);
        note(
                notes,
                "equal at the start, trained separately" + setting,
                ties.stream().filter(t -> !restored.contains(t)).toList());
        if (!idle.isEmpty()) {
            notes.add("the loss does not depend on " + String.join(", ", idle));
        }
        return notes;
    }

    private static String some(List<String> names) {
        return names.stream().limit(SHOWN_TIES).collect(Collectors.joining(", "))
                + (names.size() > SHOWN_TIES ? " and " + (names.size() - SHOWN_TIES) + " more" : "");
    }

    /** Which parameters Muon has, in a run with Muon. */
    private Optional<String> muonNote() {
        return parts.config().optimizer().others().map(o -> {
            Map<String, Set<String>> buffers = session.optimizerBuffers();
            List<String> own = buffers.entrySet().stream()
                    .filter(b -> b.getValue().contains("momentum_buffer"))
                    .map(Map.Entry::getKey)
                    .toList();
            if (own.isEmpty()) {
                throw new InvalidOptionException(
                        "Muon has no matrix to train: all parameters are vectors, embeddings or output layers, or match"
                                + " no pattern",
                        "optimizer: {type: muon, match: ...}",
                        "name matrices in match, or use type: adamw");
            }
            String rest = buffers.size() == own.size()
                    ? "no other parameter"
                    : "AdamW at lr " + o.lr() + " the other " + (buffers.size() - own.size());
            return "muon: updates " + own.size() + (own.size() == 1 ? " matrix: " : " matrices: ")
                    + own.stream().limit(SHOWN_TIES).collect(Collectors.joining(", "))
                    + (own.size() > SHOWN_TIES ? " and " + (own.size() - SHOWN_TIES) + " more" : "") + "; " + rest;
        });
    }

    /**
     * Which process is which rank: launchers name one that was killed by its number in the system. Of a process that plays all ranks, what it simulates.
     */
    private Optional<String> ranksNote() {
        if (world.isAlone()) {
            RankSettings ranks = parts.config().precision().ranks();
            return ranks.isOn() ? Optional.of(ranks.text() + sums()) : Optional.empty();
        }
        String own = String.valueOf(ProcessHandle.current().pid());
        String processes = world.gather(own.getBytes(StandardCharsets.UTF_8)).stream()
                .map(b -> new String(b, StandardCharsets.UTF_8))
                .collect(Collectors.joining(", "));
        String mesh =
                parts.config().distributed().cutsModel() ? " (" + groups.mesh().text() + ")" : "";
        return Optional.of(
                world.size() + " ranks" + mesh + ", joined by " + world.engine() + ", are the processes " + processes
                        + "; gradients are averaged by "
                        + parts.config().precision().ranks().reduction().text());
    }

    /** How products of codes add up. */
    private String sums() {
        return switch (policyFor(device)) {
            case Fp8Policy fp8
            when fp8.settings().likeHopper() -> "; FP8 products add up as Hopper's units do, which a CPU emulates";
            case Fp8Policy fp8 when fp8.multipliesCodes() -> OWN_SUMS;
            case MsampPolicy _ -> OWN_SUMS;
            default -> "";
        };
    }

    /** Says which moments blocks cannot keep. */
    private Optional<String> tinyTensors(Set<String> used) {
        List<StateForm> forms = session.states().memory().values().stream()
                .filter(StateForm.Blocked.class::isInstance)
                .toList();
        if (forms.isEmpty()) {
            return Optional.empty();
        }
        List<String> tiny = parameters.all().stream()
                .filter(p -> used.contains(p.name()))
                .filter(p -> !forms.getFirst().fits(p.tensor().shape().elementCount()))
                .map(Parameter::name)
                .toList();
        int shown = Math.min(SHOWN_TIES, tiny.size());
        return tiny.isEmpty()
                ? Optional.empty()
                : Optional.of("optimizer.states: moments of tensors with fewer than " + StateForm.Blocked.LEAST
                        + " elements, or that blocks do not divide, stay in F32: "
                        + String.join(", ", tiny.subList(0, shown))
                        + (tiny.size() > shown ? " and " + (tiny.size() - shown) + " more" : ""));
    }

    private static void note(List<String> notes, String what, List<Tie> of) {
        if (!of.isEmpty()) {
            String pairs = of.stream()
                    .limit(SHOWN_TIES)
                    .map(t -> t.original() + " and " + t.copy() + (t.transposed() ? " transposed" : ""))
                    .collect(Collectors.joining("; "));
            notes.add(
                    what + ": " + pairs + (of.size() > SHOWN_TIES ? " and " + (of.size() - SHOWN_TIES) + " more" : ""));
        }
    }

    /**
     * Runs one step. The step number determines its data, together with what {@link #skip} leaves out.
     *
     * @param step from 1
     * @throws dev.octet.formats.error.InvalidDataException when a sample does not fit
     * @throws IOException when data cannot be read
     */
    public StepResult step(long step) throws IOException {
        return step(step, null, false).result();
    }

    /** A step's result, how much data it used and how long reading that data took. */
    record Done(StepResult result, long samples, long tokens, double dataSeconds) {}

    Done step(long step, @Nullable Consumer<Gradients> afterBackward, boolean measuresFp8) throws IOException {
        groups.requireAll();
        start();
        dataSeconds = 0;
        try (Drawn of = drawn(step)) {
            List<MicroBatch> drawn = of.batches();
            if (teacher == null && reference == null && step < parts.config().steps()) {
                session.whileComputing(() -> drawAhead(step + 1));
            }
            StepResult result = step(step, drawn, afterBackward, measuresFp8);
            long samples = drawn.stream().mapToLong(MicroBatch::size).sum();
            long tokens = drawn.stream().mapToLong(this::tokens).sum();
            return new Done(result, ofAllRanks(samples), ofAllRanks(tokens), dataSeconds);
        }
    }

    /** Batches of a step. */
    private record Drawn(List<Long> numbers, List<MicroBatch> batches, Arena arena) implements AutoCloseable {
        @Override
        public void close() {
            arena.close();
        }
    }

    /** Those of a step, by their numbers alone: so they may have been drawn before. */
    private Drawn drawn(long step) throws IOException {
        Drawn before = ahead;
        ahead = null;
        if (before != null && before.numbers().equals(numbers(step))) {
            return before;
        }
        if (before != null) {
            before.close();
        }
        return drawNow(step);
    }

    private Drawn drawNow(long step) throws IOException {
        Arena arena = Arena.ofConfined();
        try {
            List<MicroBatch> drawn = new ArrayList<>();
            for (long number : numbers(step)) {
                drawn.add(draw(batches, number, arena));
            }
            return new Drawn(numbers(step), drawn, arena);
        } catch (IOException | RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    /** Numbers of this process's micro-batches of a step. */
    private List<Long> numbers(long step) {
        int accumulation = parts.config().gradientAccumulation();
        List<Long> numbers = new ArrayList<>();
        for (int i = groups.data().rank(); i < accumulation; i += groups.data().size()) {
            numbers.add(skipped.of(step) * accumulation + i);
        }
        return numbers;
    }

    /** Those of the next step, while the device computes this one. What is wrong with them is said when it is their turn. */
    private List<MicroBatch> drawAhead(long step) {
        double ofThisStep = dataSeconds;
        try {
            Drawn next = drawNow(step);
            ahead = next;
            return next.batches();
        } catch (IOException | InvalidDataException e) {
            return List.of();
        } finally {
            dataSeconds = ofThisStep;
        }
    }

    private long ofAllRanks(long own) {
        Collectives data = groups.data();
        if (data.isAlone()) {
            return own;
        }
        long[] all = new long[data.size()];
        data.allGather(MemorySegment.ofArray(new long[] {own}), MemorySegment.ofArray(all));
        return Arrays.stream(all).sum();
    }

    /** Runs the step; an error in the data names the samples' positions in the file, since positions in a shuffled batch would not help. */
    private StepResult step(
            long step, List<MicroBatch> drawn, @Nullable Consumer<Gradients> afterBackward, boolean measuresFp8) {
        try {
            session.at(step);
            fold(step);
            return session.step(drawn, scheduled(step), afterBackward, measuresFp8);
        } catch (InvalidDataException e) {
            throw atSamples(e, "step " + step, parts.train(), drawn);
        }
    }

    private static InvalidDataException atSamples(
            InvalidDataException e, String when, Samples samples, List<MicroBatch> drawn) {
        List<Long> rows = drawn.stream().flatMap(b -> b.rows().stream()).toList();
        String shown = rows.stream().limit(SHOWN_SAMPLES).map(String::valueOf).collect(Collectors.joining(", "));
        return new InvalidDataException(
                e.what(),
                e.where() + "; " + when + ", samples " + shown + (rows.size() > SHOWN_SAMPLES ? ", ..." : "")
                        + " (from 0) of " + samples.name(),
                e.fix(),
                e);
    }

    /** Tokens of a micro-batch: rows times columns of the first input if that is an integer matrix, otherwise the number of samples. */
    private long tokens(MicroBatch batch) {
        String first = model.graph().graph().requiredInputs().getFirst().name();
        Tensor input = batch.tensors().get(first);
        return input == null || input.shape().rank() != 2 || input.dtype().isFloat()
                ? batch.size()
                : input.shape().elementCount();
    }

    private MicroBatch draw(MicroBatches from, long number, Arena arena) throws IOException {
        long start = System.nanoTime();
        MicroBatch batch = from.at(number, arena);
        dataSeconds += (System.nanoTime() - start) / 1e9;
        if (reference != null) {
            Samples samples = from == evalBatches ? parts.eval().orElseThrow() : parts.train();
            return reference.answer(batch, samples, arena);
        }
        return teacher == null ? batch : teacher.answer(batch, arena);
    }

    /**
     * Mean loss over the counted positions of the evaluation data: of all samples, except where the model has a fixed number of rows and
     * the last of them do not fill a batch. The loss is the training loss, with the same teacher
     * if there is one.
     *
     * @throws IllegalStateException when there is no evaluation data
     * @throws IOException when data cannot be read
     */
    public LossValue evaluate() throws IOException {
        MicroBatches from = evalBatches;
        if (from == null) {
            throw new IllegalStateException("there is no data to evaluate on");
        }
        groups.requireAll();
        start();
        if (sharesStates()) {
            prepare(); // who owns what follows from the programs of steps
        }
        List<LossValue> losses = new ArrayList<>();
        int begun = 0;
        Collectives data = groups.data();
        for (long i = data.rank(); i < from.perEpoch(); i += data.size()) {
            try (Arena arena = Arena.ofConfined()) {
                evaluate(draw(from, i, arena)).ifPresent(losses::add);
            }
            if (session.isStaged() && ++begun % AHEAD == 0) {
                groups.pipeline().barrier(); // the first stage does not fill the memory with what waits for the others
            }
        }
        boolean isLeftOut = data.rank() >= from.perEpoch() % data.size() && from.perEpoch() % data.size() > 0;
        if (isLeftOut && session.cutsWeights()) {
            try (Arena arena = Arena.ofConfined()) {
                evaluate(draw(from, 0, arena)); // the others need this rank's weights
            }
        }
        return LossValue.meanOverPositions(session.ofAllRanks(losses));
    }

    /**
     * Perplexity: e to the mean loss per token. Empty when the loss is not over tokens, has no part computed from labels, or smooths them.
     *
     * @param evaluated the result of {@link #evaluate}
     */
    public OptionalDouble perplexity(LossValue evaluated) {
        LossConfig loss = parts.config().loss();
        Double task = loss.distillation().isEmpty()
                ? (Double) evaluated.total()
                : evaluated.parts().get(LossGraph.TASK);
        return task == null || loss.labelSmoothing().isPresent() || !isOverTokens(loss)
                ? OptionalDouble.empty()
                : OptionalDouble.of(Math.exp(task));
    }

    private boolean isOverTokens(LossConfig loss) {
        return switch (loss.type()) {
            case CAUSAL_LM -> true;
            case CROSS_ENTROPY -> {
                String output = loss.outputOf(model.graph());
                boolean perToken = model.graph().graph().outputs().stream()
                        .filter(o -> o.name().equals(output))
                        .anyMatch(o -> o.type() instanceof TensorType t
                                && t.dims() != null
                                && t.dims().size() == 3);
                yield perToken
                        && model.graph().graph().requiredInputs().stream()
                                .anyMatch(i -> i.name().equals(TOKENS));
            }
            case MSE, COSINE, DPO -> false;
        };
    }

    private Optional<LossValue> evaluate(MicroBatch batch) {
        try {
            return session.evaluate(batch);
        } catch (InvalidDataException e) {
            throw atSamples(e, "evaluation", parts.eval().orElseThrow(), List.of(batch));
        }
    }

    /**
     * What a checkpoint keeps of the weights, as views valid until the next step: all of them, or of a run that trains an adapter those of the adapter; the base
     * is that of the model's file, and the adapter's of all stages are copied: all ranks call it together.
     */
    Map<String, Tensor> keptParameters(Arena arena) {
        Map<String, Tensor> all = new TreeMap<>(session.parameterViews(arena));
        if (adapted.isPresent()) {
            all.keySet().retainAll(trained);
            return session.ofAllStages(session.whole(all, arena), arena);
        }
        return all;
    }

    /** The adapter that is trained, as a checkpoint keeps it; empty where the model itself is trained. */
    Optional<SavedAdapter> keptAdapter(Map<String, Tensor> kept, Arena arena) {
        return adapted.map(a -> AdapterSaving.of(a, kept, parts.adapter().baseModel(), taskType(), device, arena));
    }

    /** The task as PEFT names it. */
    private String taskType() {
        LossConfig loss = parts.config().loss();
        return switch (loss.type()) {
            case CAUSAL_LM, DPO -> "CAUSAL_LM";
            case CROSS_ENTROPY -> isOverTokens(loss) ? "TOKEN_CLS" : "SEQ_CLS";
            case MSE, COSINE -> "FEATURE_EXTRACTION";
        };
    }

    /** How many samples {@link #evaluate} reads. */
    long evaluationSamples() {
        return evalBatches == null ? 0 : evalBatches.samplesPerEpoch();
    }

    /** Copies of the current weights. */
    public Map<String, Tensor> parameters(Arena arena) {
        return session.parameters(arena);
    }

    /**
     * Looks for what FP8 breaks: replays steps of the run under changed precision. The trainer's own weights stay as they are.
     *
     * @param from a checkpoint of the run, whose next steps are replayed; null for the first steps of a new one
     * @throws InvalidDataException when there is less data than one batch, or the checkpoint is of another model
     * @throws dev.octet.formats.error.UnsupportedModelException when an operator cannot be trained
     * @throws IOException when data cannot be read, or the log of the replays cannot be written
     */
    public Diagnosis examine(@Nullable TrainingState from, ExaminationOptions options) throws IOException {
        try (Arena arena = Arena.ofShared()) {
            return Examination.of(excerpt(from, options.steps(), arena), options);
        }
    }

    /**
     * Steps of the run as {@link #examine} replays them. Of a run with a guard they are computed, and read data, as the guard had decided by the
     * checkpoint; this trainer then does so, too.
     *
     * @param from as there
     * @param steps how many
     * @param arena owns samples and copies of the weights
     * @throws InvalidDataException as there
     * @throws IOException when data cannot be read
     */
    public Excerpt excerpt(@Nullable TrainingState from, int steps, Arena arena) throws IOException {
        start();
        int accumulation = parts.config().gradientAccumulation();
        long first = from == null ? 1 : from.step() + 1;
        Map<String, Tensor> state = new TreeMap<>(from == null ? Map.of() : from.state());
        state.keySet().removeIf(RunSnapshot::holds);
        if (from != null && parts.config().guard().isOn()) {
            // the run went on by what its guard had decided: products demoted, batches left out
            new GuardedRun(this, new Fp8Health(0, 0, Path.of("")))
                    .recall(TrainingRun.withPrefix(TrainingRun.GUARD, from.numbers()));
        }
        if (from != null) {
            measuredRate.ifPresent(m -> m.recall(TrainingRun.withPrefix(TrainingRun.RATE, from.numbers())));
        }
        List<List<MicroBatch>> drawn = new ArrayList<>();
        List<StepRate> rates = new ArrayList<>();
        for (long step = first; step < first + steps; step++) {
            List<MicroBatch> of = new ArrayList<>();
            for (int i = 0; i < accumulation; i++) {
                of.add(draw(batches, skipped.of(step) * accumulation + i, arena));
            }
            drawn.add(of);
            // a replay may reach beyond the end of the run
            rates.add(scheduled(Math.min(step, parts.config().steps())));
        }
        session.prepare(drawn.getFirst().getFirst());
        Map<String, Tensor> weights = from == null ? session.parameters(arena) : from.parameters();
        requireSameModel(weights);
        return new Excerpt(
                setup(session.policy()),
                device,
                first,
                drawn,
                rates,
                weights,
                state,
                from == null ? parts.config().precision().scaling().initial() : ScaleText.read(from.numbers()),
                identity(first, steps));
    }

    /** Rejects weights of another model, by names and shapes. */
    private void requireSameModel(Map<String, Tensor> weights) {
        Map<String, Shape> shapes = new TreeMap<>(session.parameterShapes());
        if (adapted.isPresent()) {
            shapes.keySet().retainAll(trained);
        }
        shapes.forEach((name, shape) -> {
            Tensor weight = weights.get(name);
            if (weight == null || !weight.shape().equals(shape)) {
                throw new InvalidDataException(
                        weight == null
                                ? "the checkpoint has no '" + name + "', which the model has as " + shape
                                : "the checkpoint has '" + name + "' as " + weight.shape() + ", the model as " + shape,
                        "weights of the checkpoint",
                        "give the model that the run trained");
            }
        });
    }

    private String identity(long first, int steps) {
        Map<String, String> all = new TreeMap<>(Settings.of(parts.config()));
        all.putAll(dataDigests());
        parts.inputs().forEach((name, digest) -> all.put("inputs." + name, digest));
        all.put("octet", OctetVersion.current());
        all.put("replayed", first + " to " + (first + steps - 1));
        all.put("device", device.name());
        return Sha256.of(all.toString().getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Starts or resumes a run in a folder: steps, evaluations, checkpoints, metrics.
     *
     * @param folder created if it does not exist
     * @throws InvalidOptionException when the folder holds a run that is not to be resumed, or one that was started with other settings
     * @throws dev.octet.formats.error.MalformedModelException when the checkpoint is damaged
     * @throws IOException when something cannot be read or written
     */
    public RunEnd run(Path folder, RunOptions options) throws IOException {
        groups.requireAll();
        if (options.resume()) {
            new CheckpointFolder(folder).requireSome();
        } else {
            plan(); // rejects untrainable models before the folder is created
        }
        if (!world.isFirst()) {
            return new TrainingRun(this, folder, options).run();
        }
        Files.createDirectories(folder);
        try (FolderLock _ = FolderLock.of(folder, LOCK)) {
            return new TrainingRun(this, folder, options).run();
        }
    }

    /**
     * The first step that {@link #run} would execute now. Changes nothing.
     *
     * @throws InvalidOptionException when {@link #run} would throw it
     * @throws dev.octet.formats.error.MalformedModelException when the checkpoint is damaged
     * @throws IOException when something cannot be read
     */
    public long firstStep(Path folder, RunOptions options) throws IOException {
        return new TrainingRun(this, folder, options).firstStep();
    }

    @Override
    public void close() {
        if (ahead != null) {
            ahead.close();
        }
        session.close();
        if (teacher != null) {
            teacher.close();
        }
        if (reference != null) {
            reference.close();
        }
    }

    /** What {@code debug:} comes to for the model. */
    DebugPlan debugPlan() {
        return debug;
    }

    /** Has the tensors of the next step read that {@code debug:} asks for in it; empty when it asks for none. */
    Optional<TensorWatch> watchTensors(long step, TensorDumps dumps) {
        DebugSettings settings = parts.config().debug();
        SharedLayers shared = new SharedLayers(session.cut(), groups.tensor());
        TensorWatch watch = new TensorWatch(debug, settings.iteration(step), settings.parity(), dumps, shared, device);
        if (!watch.isNeeded()) {
            return Optional.empty();
        }
        session.watchNext(watch);
        return Optional.of(watch);
    }

    /** What {@code debug:} changes in the run's numbers, as settings. */
    Map<String, String> debugChanges() {
        return debugChanges.settings();
    }

    /** Digests of the run's data, as settings. */
    Map<String, String> dataDigests() {
        Samples eval = parts.eval().orElse(null);
        return eval == null
                ? Map.of("data.train", parts.train().digest())
                : Map.of("data.train", parts.train().digest(), "data.eval", eval.digest());
    }
}
