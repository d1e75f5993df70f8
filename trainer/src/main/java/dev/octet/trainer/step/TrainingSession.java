package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.activation.WeightCasts;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.checkpoint.CodedMasters;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.cut.CutPlace;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.cut.TensorCut;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.hook.StepWork;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.CountedPositions;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.optimizer.StepRate;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.Fp8Choice;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.shard.CallOrder;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.shard.Stages;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateTensors;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A model on a device, ready for training. Programs are built when the shapes of a micro-batch first occur; those of the {@value
 * RecentPrograms#MAX} most recently used shapes are kept. Not thread-safe.
 */
public final class TrainingSession implements AutoCloseable {
    /** State names are {@link Fp8Layer#slot} with one of these suffixes or {@code .amax_history}. */
    private static final String FP8 = "fp8.";

    private static final String QUANT_SCALE = ".quant_scale";
    private static final String AMAX = ".amax";
    private static final String HISTORY = ".amax_history";

    /** Before the names of parameters whose codes a checkpoint has among the state. */
    private static final String CODES = "codes:";

    private final TrainingSetup setup;
    private final Collectives world;
    /** The ranks that compute other samples with the same weights. */
    private final Collectives data;
    /** The stages that compute the same samples. */
    private final Collectives pipeline;

    /** The ranks that have other parts of the same weights. */
    private final Collectives tensor;

    private final RankGroups groups;
    private final Mesh mesh;
    private PrecisionPolicy policy;
    private final PersistentBuffers memory;
    private final WeightCasts casts;
    private final Scalars scalars;
    private final RecentPrograms<Key, Loaded> programs = new RecentPrograms<>(Loaded::close);
    private @Nullable Update update;
    private @Nullable RankGradients ranks;
    private @Nullable Sharding sharding;
    private @Nullable Stages stages;
    private @Nullable TensorCut cut;
    /** What this rank has of weights and states, by name. */
    private Map<String, Part> parts = Map.of();

    /** Parts of frozen weights that stay in their file's bytes. */
    private final Map<String, Tensor> cutConstants = new TreeMap<>();

    private @Nullable TensorWatch tensorWatch;
    private LossScaling.State scale;
    private @Nullable ProductWatch products;
    private long step = 1;
    private boolean held;
    private boolean restored;

    private record Key(Map<String, Shape> shapes, boolean trains) {}

    /**
     * Programs for micro-batches of certain shapes.
     *
     * @param program of the whole model; where a pipeline's stages compute it, each has a part
     * @param chunks what this rank computes
     * @param lossParts names of what the loss is made of, by term
     * @param loss name of the loss
     * @param fp8 which parts of the program compute in FP8
     */
    private record Loaded(
            Program program,
            List<Chunk> chunks,
            String loss,
            Map<String, String> lossParts,
            CountedPositions counted,
            Fp8Choice fp8,
            ActivationPlan activations) {
        void close() {
            chunks.forEach(Chunk::close);
        }
    }

    /**
     * @param before run before the update, null without stages
     * @param after run after it
     */
    private record Update(
            UpdateProgram program,
            Executable executable,
            @Nullable Value beta1,
            Map<Double, Value> ownRates,
            @Nullable Executable before,
            @Nullable Executable after) {
        void run() {
            if (before != null) {
                before.run(Phase.UPDATE);
            }
            executable.run(Phase.UPDATE);
            if (after != null) {
                after.run(Phase.UPDATE);
            }
        }

        List<Executable> all() {
            return before == null || after == null ? List.of(executable) : List.of(before, executable, after);
        }
    }

    /** A session with the weights of the model. */
    public TrainingSession(TrainingSetup setup, Device device) {
        this(setup, device, Offload.NONE);
    }

    /**
     * A session with the weights of the model.
     *
     * @param offload what lies off the device between its uses
     * @throws dev.octet.formats.error.InvalidOptionException when the device cannot do that
     */
    public TrainingSession(TrainingSetup setup, Device device, Offload offload) {
        this(setup, device, offload, RankGroups.ofData(Collectives.alone()));
    }

    /**
     * A session that is one rank of several.
     *
     * @param offload as there
     * @param groups all ranks; as many data-parallel ones as {@code setup} has, unless this one is alone and plays them all
     */
    public TrainingSession(TrainingSetup setup, Device device, Offload offload, RankGroups groups) {
        this.groups = groups;
        this.world = groups.world();
        this.data = groups.data();
        this.tensor = groups.tensor();
        this.pipeline = groups.pipeline();
        this.mesh = groups.mesh();
        if (!world.isAlone() && setup.ranks().ranks() != data.size()) {
            throw new IllegalArgumentException(
                    world.name() + " in a run of " + setup.ranks().ranks());
        }
        this.setup = setup;
        this.policy = setup.policy();
        this.scale = setup.scaling().initial();
        this.memory = new PersistentBuffers(device, setup.states(), offload);
        this.casts = offload.isOn() ? WeightCasts.OF_A_STEP : WeightCasts.OF_A_LAYER;
        this.scalars = new Scalars();
        if (tensor.isAlone()) {
            memory.offer(setup.parameters().all());
        }
    }

    /**
     * Computes by another policy from the next step or evaluation on. Weights, moments, the loss scale and the state of scales stay; programs are built anew when
     * they are next needed.
     */
    public void usePolicy(PrecisionPolicy next) {
        if (!next.equals(policy)) {
            programs.clear();
            policy = next;
        }
    }

    /** The policy that steps are computed by. */
    public PrecisionPolicy policy() {
        return policy;
    }

    /** Builds the programs for micro-batches of these shapes, so that untrainable models are rejected before the first step. */
    public void prepare(MicroBatch like) {
        loaded(like, true);
    }

    /** The program for micro-batches of these shapes; where stages compute it, that of all of them. */
    public Program program(MicroBatch like) {
        return loaded(like, true).program();
    }

    /** What the program for micro-batches of these shapes keeps between forward and backward. */
    public ActivationPlan activations(MicroBatch like) {
        return loaded(like, true).activations();
    }

    /** What this rank does of a step with micro-batches of these shapes. */
    public StepWork work(MicroBatch like) {
        long forward = 0;
        long products = 0;
        long again = 0;
        long bytes = 0;
        long once = 0;
        List<Step> steps = loaded(like, true).chunks().stream()
                .flatMap(c -> c.program().steps().stream())
                .toList();
        for (Step s : steps) {
            StepCost cost = StepCost.of(s);
            if (StepCost.isProduct(s)) {
                forward += s.phase() == Phase.FORWARD ? cost.flops() : 0;
                products += cost.flops();
                again += s.repeats() ? cost.flops() : 0;
            } else if (s.phase() == Phase.PREPARE) {
                once += cost.bytes();
            } else {
                bytes += cost.bytes();
            }
        }
        for (Step s : update().program().program().steps()) {
            once += StepCost.of(s).bytes();
        }
        return new StepWork(forward, products, again, bytes, once);
    }

    /** Shapes of the weights that the programs built so far use. */
    public Map<String, Shape> parameterShapes() {
        Map<String, Shape> shapes = new TreeMap<>(memory.shapes(ValueRole.PARAMETER));
        Sharding shares = sharding;
        if (shares != null) {
            shapes.putAll(shares.weights()); // those of other ranks, too
        }
        if (stages != null) {
            shapes.putAll(stages.weights());
        }
        shapes.replaceAll((name, own) -> {
            Part part = parts.get(name);
            return part == null ? own : part.whole();
        });
        return shapes;
    }

    /** Whether this rank has only its own weights between their uses. */
    public boolean cutsWeights() {
        return isSharded() && setup.shards().zero().cutsWeights();
    }

    /** Bytes of parameters, gradients, moments and other state so far. */
    public long lastingBytes() {
        return memory.bytes();
    }

    /** Those of {@link #lastingBytes} that lie off the device between their uses. */
    public long offloadedBytes() {
        return memory.offloadedBytes();
    }

    /** Those of {@link #lastingBytes} that stay on the device. */
    public long residentBytes() {
        return lastingBytes() - offloadedBytes();
    }

    /** Lets go of what a view of this parameter or state brought into memory: whoever writes a checkpoint is done with it. */
    public void settle(String name) {
        memory.settle(name);
    }

    /** Bytes of gradients, moments and other state so far: all that lasts but weights, in whatever type. */
    public long stateBytes() {
        return memory.bytes(ValueRole.GRADIENT) + memory.bytes(ValueRole.STATE);
    }

    /** Names of the optimizer's buffers, by parameter; empty before the first program is built. */
    public Map<String, Set<String>> optimizerBuffers() {
        Map<String, Set<String>> buffers = new TreeMap<>();
        if (update != null) {
            update.program().memory().forEach((name, memory) -> buffers.put(name, memory.keySet()));
        }
        return buffers;
    }

    /** Who owns what and what travels together, which is the same on all ranks; empty where nothing is shared out, or before the first program is built. */
    public Optional<String> shares() {
        return Optional.ofNullable(sharding).map(Sharding::text);
    }

    /** How tensors are kept between steps. */
    public StateForms states() {
        return setup.states();
    }

    /** Bytes of what is kept for the trained parameters so far, by part; adapters and masters in F32 included. */
    public StatePlan statePlan(String engine, long trainedElements) {
        Set<String> moments = new HashSet<>();
        optimizerBuffers().values().forEach(moments::addAll);
        // those of a stage are kept for its own parameters
        long elements = isStaged()
                ? memory.shapes(ValueRole.PARAMETER).entrySet().stream()
                        .filter(p -> setup.trained().contains(p.getKey()))
                        .mapToLong(p -> p.getValue().elementCount())
                        .sum()
                : trainedElements;
        return new StatePlan(
                engine,
                elements,
                memory.bytes(v -> v.role() == ValueRole.PREPARED),
                memory.bytes(v -> setup.trained().contains(plainName(v)) && v.role() != ValueRole.GRADIENT),
                memory.bytes(v -> v.role() == ValueRole.GRADIENT
                        || (v.role() == ValueRole.STATE && v.name().startsWith("d:"))),
                memory.bytes(v ->
                        v.role() == ValueRole.STATE && moments.contains(v.name().split(":", 2)[0])));
    }

    /** The name of the parameter that a value is a part of. */
    private static String plainName(Value v) {
        for (String suffix : List.of(StateForm.SCALE, StateForm.REMAINDER)) {
            if (v.role() == ValueRole.STATE && v.name().endsWith(suffix)) {
                return v.name().substring(0, v.name().length() - suffix.length());
            }
        }
        return v.role() == ValueRole.PARAMETER ? v.name() : "";
    }

    /** Bytes of inputs, constants and temporaries of all programs so far. */
    public long temporaryBytes() {
        return programs.all().stream()
                        .flatMap(l -> l.chunks().stream())
                        .mapToLong(Chunk::bytes)
                        .sum()
                + (update == null
                        ? 0
                        : update.all().stream().mapToLong(Executable::bytes).sum());
    }

    private Loaded loaded(MicroBatch batch, boolean trains) {
        return programs.get(new Key(batch.shapes(), trains), _ -> make(batch, trains));
    }

    private LossGraph graph(MicroBatch batch) {
        LossGraph whole = wholeGraph(batch);
        return tensor.isAlone() ? whole : own(whole);
    }

    private LossGraph wholeGraph(MicroBatch batch) {
        Map<String, OperandType> data = new TreeMap<>();
        batch.tensors().forEach((name, t) -> data.put(name, new OperandType(t.dtype(), t.shape())));
        return LossGraph.of(
                setup.source().at(batch.shapes()),
                setup.loss(),
                data,
                setup.source().virtualTokens());
    }

    /** The part of a model that this rank has. Which part of which weight follows from the first micro-batch. */
    private LossGraph own(LossGraph whole) {
        ProgramOptions all = ProgramOptions.training(
                        whole.loss(), setup.trained(), setup.parameters().names(), policy)
                .withOutputs(whole.parts().values())
                .withStored(setup.stored());
        TensorCut made = TensorCut.of(
                whole.model(),
                all,
                new CutPlace(tensor.rank(), tensor.size(), setup.shards().sequences()),
                cutConstants);
        TensorCut before = cut;
        if (before == null) {
            memory.offer(made.parameters(setup.parameters().all()));
            cut = made.withoutModel();
            parts = made.parts();
        } else if (!before.parts().equals(made.parts())) {
            throw new InvalidOptionException(
                    "samples of different shapes have weights cut in different ways",
                    "distributed.tensor: " + tensor.size() + "; " + world.name(),
                    "pad samples to one length, or leave tensor out");
        }
        return new LossGraph(made.model(), whole.loss(), whole.output(), whole.parts(), whole.counted());
    }

    /** How ranks share layers; empty where they do not, or before the first program is built. */
    public Optional<TensorCut> cut() {
        return Optional.ofNullable(cut);
    }

    /** What this rank has of weights and states that are cut, by name. */
    public Map<String, Part> parts() {
        return parts;
    }

    private Program plain(LossGraph graph, boolean trains) {
        Set<String> parameters = setup.parameters().names();
        List<String> read = new ArrayList<>(graph.parts().values());
        if (!trains) {
            read.add(graph.loss());
        }
        ProgramOptions options = trains
                ? ProgramOptions.training(graph.loss(), setup.trained(), parameters, policy)
                        .withOutputs(read)
                : ProgramOptions.forward(read, parameters, policy);
        return Autodiff.program(
                graph.model(), options.withStored(setup.stored()).withStates(setup.states()));
    }

    private ActivationPlan planned(Program plain) {
        return ActivationPlan.of(plain, setup.activations(), casts);
    }

    private Loaded make(MicroBatch batch, boolean trains) {
        LossGraph graph = graph(batch);
        Program plain = plain(graph, trains);
        return isStaged() ? makeStaged(graph, plain, trains, batch) : makeWhole(graph, plain, trains);
    }

    private Loaded makeWhole(LossGraph graph, Program plain, boolean trains) {
        ActivationPlan plan = planned(plain);
        TensorCut cuts = cut;
        boolean scalesLater = trains && (setup.ranks().isOn() || cuts != null);
        Program whole = among(scalesLater ? SharedScales.without(plan.program()) : plan.program());
        if (trains && sharding == null && isSharded()) {
            sharding = share(whole, setup.shards());
        }
        Sharding shares = sharding;
        Program program = shares == null ? whole : shares.program(whole, data.rank(), data);
        UpdateProgram made = null;
        if (trains && update == null) {
            made = shares == null ? update(program) : shares.update(data.rank(), data);
            made = among(made);
        }
        memory.requireRoom(made == null ? List.of(program) : List.of(program, made.program()));
        SharedScales scales = scalesLater
                ? new SharedScales(
                        plan.program(),
                        Set.of(Phase.values()),
                        _ -> true,
                        setup.ranks().ranks(),
                        memory,
                        groups)
                : null;
        Chunk chunk = new Chunk(program, memory, 1, null, scales);
        if (made != null) {
            update = new Update(
                    made, memory.load(made.program()), made.beta1().orElse(null), made.ownRates(), null, null);
        }
        if (trains && ranks == null && setup.ranks().isOn() && !cutsGradients()) {
            ranks = loadRanks(program);
        }
        return loaded(graph, program, List.of(chunk), plan, trains);
    }

    private Loaded loaded(LossGraph graph, Program program, List<Chunk> chunks, ActivationPlan plan, boolean trains) {
        Set<String> nodes = program.steps().stream().map(Step::node).collect(Collectors.toSet());
        Fp8Choice fp8 = policy.fp8(graph.model().graph()).of(nodes);
        String loss = trains ? Program.LOSS : graph.loss();
        return new Loaded(program, chunks, loss, graph.parts(), graph.counted(), fp8, plan);
    }

    /** The chunks of this rank's stage. */
    private Loaded makeStaged(LossGraph graph, Program plain, boolean trains, MicroBatch batch) {
        Program whole = among(trains ? SharedScales.without(plain) : plain);
        Stages dealt = stages;
        if (dealt == null) {
            Program training = trains ? whole : SharedScales.without(plain(graph, true));
            // of all layers, so that ranks which share them are cut in the same places
            Program model = cut == null ? training : plain(wholeGraph(batch), true);
            dealt = new Stages(model, training, update(training), setup.states(), mesh.pipeline(), mesh.chunks());
            stages = dealt;
        }
        ActivationPlan.require(whole, setup.activations());
        int stage = pipeline.rank();
        List<Integer> inFlight = new ArrayList<>();
        List<ActivationPlan> plans = new ArrayList<>();
        List<Program> together = new ArrayList<>();
        for (int c = 0; c < mesh.chunks(); c++) {
            plans.add(ActivationPlan.ofPart(dealt.program(whole, stage, c, pipeline), setup.activations(), casts));
            inFlight.add(trains ? order(setup.shards().microBatches()).inFlight(stage, c) : 1);
            for (int i = 0; i < inFlight.get(c); i++) {
                together.add(plans.getLast().program());
            }
        }
        UpdateProgram made = trains && update == null ? among(stagedUpdate(dealt)) : null;
        if (made != null) {
            together.add(made.program());
        }
        memory.requireRoom(together);
        List<Chunk> chunks = new ArrayList<>();
        for (int c = 0; c < mesh.chunks(); c++) {
            Program own = plans.get(c).program();
            SharedScales forward = null;
            SharedScales backward = null;
            if (trains) {
                Set<String> used = own.lasting().stream().map(Value::name).collect(Collectors.toSet());
                forward = scales(plain, Set.of(Phase.PREPARE, Phase.FORWARD), used);
                backward = scales(plain, Set.of(Phase.BACKWARD), used);
            }
            chunks.add(new Chunk(own, memory, inFlight.get(c), forward, backward));
        }
        if (made != null) {
            update = new Update(
                    made,
                    memory.load(made.program()),
                    made.beta1().orElse(null),
                    made.ownRates(),
                    memory.load(dealt.beforeUpdate(stage, pipeline)),
                    memory.load(dealt.afterUpdate(stage, pipeline)));
        }
        if (trains && ranks == null && setup.ranks().isOn()) {
            ranks = loadRanks(dealt.gradients(stage));
        }
        return loaded(graph, whole, chunks, plans.getFirst(), trains);
    }

    private SharedScales scales(Program training, Set<Phase> phases, Set<String> used) {
        return new SharedScales(training, phases, used::contains, setup.ranks().ranks(), memory, groups);
    }

    /** A program whose steps know the ranks that share its layers. */
    private Program among(Program program) {
        TensorCut cuts = cut;
        return cuts == null ? program : cuts.among(program, tensor);
    }

    private UpdateProgram among(UpdateProgram made) {
        TensorCut cuts = cut;
        if (cuts == null) {
            return made;
        }
        parts = cuts.withStates(made);
        return cuts.among(made, tensor);
    }

    private UpdateProgram stagedUpdate(Stages dealt) {
        UpdateProgram own = dealt.update(pipeline.rank(), pipeline);
        if (!isSharded()) {
            return own;
        }
        sharding = new Sharding(dealt.owned(pipeline.rank()), own, setup.states(), setup.shards(), data.size());
        return sharding.update(data.rank(), data);
    }

    /** In which order stages compute so many micro-batches; with one stage each goes forward and backward before the next. */
    private CallOrder order(int microBatches) {
        return new CallOrder(mesh.pipeline(), mesh.chunks(), microBatches);
    }

    /** Whether this rank computes a part of the model. */
    public boolean isStaged() {
        return mesh.pipeline() > 1;
    }

    /** How the model is dealt out to stages; empty where it is not, or before the first program is built. */
    public Optional<Stages> stages() {
        return Optional.ofNullable(stages);
    }

    private UpdateProgram update(Program training) {
        return UpdateProgram.of(
                training,
                setup.optimizer(),
                setup.ownRate(),
                setup.noDecay(),
                setup.maxNorm(),
                setup.averages(),
                setup.states());
    }

    /** Whether this rank keeps a share of what there is. One process that plays all ranks keeps all. */
    private boolean isSharded() {
        return !data.isAlone() && setup.shards().isOn();
    }

    /** Whether it has only its own averaged gradients. */
    private boolean cutsGradients() {
        return isSharded() && setup.shards().zero().cutsGradients();
    }

    private Sharding share(Program training, ShardSettings settings) {
        return new Sharding(training, update(training), setup.states(), settings, data.size());
    }

    /** What each stage of sharing out has a rank keep; empty for a run without ranks, and for one whose model is dealt out. */
    public Optional<ZeroPlan> zeroPlan(MicroBatch like) {
        RankSettings settings = setup.ranks();
        if (!settings.isOn() || isStaged()) {
            return Optional.empty();
        }
        Program training = planned(plain(graph(like), true)).program();
        RankPrograms averaging = RankPrograms.ofOne(training, settings, codedGradients());
        ShardMemory memories = new ShardMemory(training, update(training), averaging, setup.states(), setup.shards());
        return Optional.of(memories.plan(settings.ranks()));
    }

    /** What each stage of a pipeline has and does; empty for a run without stages. */
    public Optional<StagePlan> stagePlan(MicroBatch like) {
        if (!isStaged()) {
            return Optional.empty();
        }
        prepare(like);
        Stages dealt = Objects.requireNonNull(stages);
        Program training = SharedScales.without(plain(graph(like), true));
        CallOrder order = order(setup.shards().microBatches());
        return Optional.of(new StageMemory(dealt, training, order, setup, casts).plan());
    }

    /** Gradients of the matrices kept in few bits, or of all, are averaged in E4M3, unless all are averaged in F32. */
    private Set<String> codedGradients() {
        RankSettings settings = setup.ranks();
        StateForms states = setup.states();
        return setup.parameters().all().stream()
                .filter(_ -> settings.reduction().isCoded())
                .filter(p -> states.isF32()
                        ? p.use() == Parameter.Use.WEIGHT
                        : !states.parameter(p.name(), p.tensor().shape()).isF32())
                .map(Parameter::name)
                .collect(Collectors.toSet());
    }

    private RankGradients loadRanks(Program training) {
        RankSettings settings = setup.ranks();
        Set<String> matrices = codedGradients();
        return data.isAlone()
                ? new SimulatedGradients(settings, RankPrograms.of(training, settings, matrices), memory)
                : new ExchangedGradients(
                        settings,
                        RankPrograms.ofOne(training, settings, matrices),
                        memory,
                        data,
                        setup.shards().bucketBytes());
    }

    private Update update() {
        return Objects.requireNonNull(update, "no program was built yet");
    }

    /** The number of the next step, from 1; what dropout keeps follows from it. Each step adds one. */
    public void at(long next) {
        step = next;
    }

    /** Has the next step's tensors read; does not change its numbers. */
    public void watchNext(TensorWatch watch) {
        tensorWatch = watch;
    }

    /** Runs one step at a learning rate; otherwise as {@link #step(List, StepRate, Consumer, boolean)}. */
    public StepResult step(
            List<MicroBatch> batches, double lr, @Nullable Consumer<Gradients> afterBackward, boolean measuresFp8) {
        return step(batches, StepRate.of(lr), afterBackward, measuresFp8);
    }

    /**
     * Runs one step.
     *
     * @param batches its micro-batches; of N ranks, of which this is number r, those with the numbers r, r + N, r + 2N, ...
     * @param rate learning rate, and the first beta where it moves
     * @param afterBackward reads the gradients before they are clipped and used; may be null
     * @param measuresFp8 whether to count what FP8 casts lose; does not change the step's numbers
     */
    public StepResult step(
            List<MicroBatch> batches, StepRate rate, @Nullable Consumer<Gradients> afterBackward, boolean measuresFp8) {
        if (cutsGradients() && batches.size() != setup.shards().microBatches()) {
            throw new IllegalArgumentException(
                    batches.size() + " micro-batches, not " + setup.shards().microBatches());
        }
        batches.forEach(this::prepare);
        memory.zeroGradients();
        UpdateProgram program = update().program();
        scalars.write(memory.memory(), program.badLoss(), 0);
        Fp8Watch watch = measuresFp8 ? new Fp8Watch() : null;
        TensorWatch tensors = tensorWatch;
        tensorWatch = null;
        List<Supplier<LossValue>> losses = forwardAndBackward(batches, watch, tensors);
        if (!world.isAlone()) {
            float bad = (float) memory.readNumber(program.badLoss());
            scalars.write(memory.memory(), program.badLoss(), world.allReduce(bad, RankReduction.MAX));
        }
        if (afterBackward != null) {
            requireWholeGradients();
            afterBackward.accept(gradients());
        }
        scalars.write(memory.memory(), program.learningRate(), (float) rate.lr());
        update().ownRates()
                .forEach((multiple, value) ->
                        scalars.write(memory.memory(), value, held ? 0 : (float) (rate.lr() * multiple)));
        Value beta1 = update().beta1();
        if (beta1 != null && rate.beta1().isPresent()) {
            scalars.write(memory.memory(), beta1, (float) rate.beta1().getAsDouble());
        }
        scalars.write(memory.memory(), program.unscale(), setup.scaling().inverse(scale));
        update().run();
        // the device has already decided whether the step counts: the host waits only from here on
        Fetched norm = memory.memory().fetch(program.norm());
        Fetched nonFinite = memory.memory().fetch(program.nonFinite());
        LossValue loss =
                LossValue.mean(ofAllRanks(losses.stream().map(Supplier::get).toList()));
        boolean counts = Scalars.of(nonFinite) == 0;
        StepResult result =
                result(batches, loss, Scalars.of(norm), counts, watch == null ? List.of() : watch.tensors(pipeline));
        step++;
        return result;
    }

    /** The losses of the micro-batches of all ranks, on each of them, from those that this one has computed. */
    public List<LossValue> ofAllRanks(List<LossValue> own) {
        return RankLosses.of(data, RankLosses.ofLast(pipeline, own));
    }

    /** Accumulates gradients over the micro-batches; returns suppliers of their losses, which wait for the device. A stage that has no loss returns none. */
    private List<Supplier<LossValue>> forwardAndBackward(
            List<MicroBatch> batches, @Nullable Fp8Watch watch, @Nullable TensorWatch tensors) {
        Set<Chunk> prepared = new HashSet<>();
        List<Supplier<LossValue>> losses = new ArrayList<>();
        int calls = 0;
        for (CallOrder.Call call : order(batches.size()).of(pipeline.rank())) {
            MicroBatch batch = batches.get(call.microBatch());
            Loaded loaded = loaded(batch, true);
            Chunk chunk = loaded.chunks().get(call.chunk());
            boolean isLast = call.microBatch() == batches.size() - 1;
            if (!call.backward()) {
                Executable executable = chunk.begin(call.microBatch());
                StepObserver casts =
                        watch == null ? null : watch.of(loaded.fp8().layers());
                StepObserver read = tensors == null ? null : tensors.ofMicroBatch(call.microBatch() == 0);
                StepObserver measured = products == null ? null : products.observer();
                executable.observe(both(both(casts, read), measured));
                if (prepared.add(chunk)) {
                    prepare(chunk, inStep(batches.size()));
                }
                draw(data.rank() + inStep(call.microBatch()));
                forward(loaded, chunk, executable, batch).ifPresent(losses::add);
            } else {
                Executable executable = chunk.of(call.microBatch());
                if (isStaged()) {
                    draw(data.rank() + inStep(call.microBatch())); // others may have gone forward meanwhile
                }
                executable.run(Phase.BACKWARD);
                executable.observe(null);
                chunk.release(call.microBatch());
            }
            SharedScales scales = chunk.scales(call.backward());
            if (scales != null) {
                scales.take(call.microBatch(), isLast);
            }
            if (call.backward() && ranks != null) {
                calls++;
                ranks.take(calls - 1, calls == batches.size() * mesh.chunks());
            }
        }
        if (!world.isAlone()) {
            draw(inStep(batches.size()) - 1L); // a checkpoint has the step's last one
        }
        return losses;
    }

    /** Before a chunk's first micro-batch of a step. */
    private void prepare(Chunk chunk, int microBatches) {
        if (chunk.program().lasting().stream().anyMatch(v -> v.name().equals(Program.LOSS_GRADIENT))) {
            memory.writeLossGradient(
                    chunk.program(), scale.scale() * setup.ranks().ranks() / microBatches);
        }
        chunk.first().run(Phase.PREPARE);
    }

    /** Says which masks of dropout are due. */
    private void draw(long microBatch) {
        memory.writeDraw(step, microBatch);
    }

    /** How many micro-batches all ranks have where this one has so many. */
    private int inStep(int own) {
        return own * data.size();
    }

    private static @Nullable StepObserver both(@Nullable StepObserver one, @Nullable StepObserver other) {
        if (one == null || other == null) {
            return one == null ? other : one;
        }
        return (step, nanos, running) -> {
            one.after(step, nanos, running);
            other.after(step, nanos, running);
        };
    }

    /** Its loss, where this rank computes it. */
    private Optional<Supplier<LossValue>> forward(Loaded loaded, Chunk chunk, Executable executable, MicroBatch batch) {
        executable.program().inputs().forEach((name, value) -> {
            Tensor tensor = batch.tensors().get(name);
            if (tensor != null) {
                executable.feed(value, tensor.bytes());
            }
        });
        executable.run(Phase.FORWARD);
        Value loss = chunk.result(loaded.loss());
        if (loss == null) {
            return Optional.empty();
        }
        Map<String, Fetched> parts = new TreeMap<>();
        loaded.lossParts()
                .forEach((part, name) ->
                        parts.put(part, executable.fetch(Objects.requireNonNull(chunk.result(name), name))));
        Fetched total = executable.fetch(loss);
        return Optional.of(() -> {
            Map<String, Double> numbers = new TreeMap<>();
            parts.forEach((part, fetched) -> numbers.put(part, (double) Scalars.of(fetched)));
            return new LossValue(Scalars.of(total), numbers, loaded.counted().in(batch.tensors()));
        });
    }

    private StepResult result(
            List<MicroBatch> batches, LossValue loss, double norm, boolean counts, List<Fp8Tensor> fp8) {
        double before = scale.scale();
        String bad = "";
        if (!counts) {
            bad = Double.isFinite(loss.total()) ? badGradients(update().program()) : "loss";
        }
        // with dynamic loss scaling an overflow is expected and does not point to a problem in the model
        boolean searched =
                !bad.isEmpty() && (bad.equals("loss") || !setup.scaling().isDynamic());
        String where = searched ? search(batches) : "";
        scale = setup.scaling().next(scale, !bad.isEmpty());
        return new StepResult(
                loss.total(),
                loss.parts(),
                norm,
                !bad.isEmpty(),
                bad,
                where,
                before,
                scale.scale(),
                fp8,
                Optional.ofNullable(ranks).flatMap(RankGradients::report));
    }

    private String badGradients(UpdateProgram program) {
        List<String> bad = new ArrayList<>();
        program.squares().forEach((name, value) -> {
            if (!Double.isFinite(memory.readNumber(value))) {
                bad.add(name);
            }
        });
        int shown = Math.min(3, bad.size());
        String more = bad.size() > shown ? " and " + (bad.size() - shown) + " more" : "";
        return bad.isEmpty()
                ? "norm of all gradients"
                : "gradient of " + String.join(", ", bad.subList(0, shown)) + more;
    }

    /** The first non-finite result of all ranks' micro-batches. */
    private String search(List<MicroBatch> batches) {
        if (world.isAlone()) {
            return searchOwn(batches).where();
        }
        Found own = searchOwn(batches);
        byte[] text = own.where().getBytes(StandardCharsets.UTF_8);
        byte[] said = ByteBuffer.allocate(2 * Long.BYTES + text.length)
                .putLong(data.rank() + (long) inStep(own.batch()))
                .putLong(own.place())
                .put(text)
                .array();
        int head = 2 * Long.BYTES;
        return world.gather(said).stream()
                .filter(s -> s.length > head)
                .min(Comparator.comparingLong((byte[] s) -> ByteBuffer.wrap(s).getLong())
                        .thenComparingLong(s -> ByteBuffer.wrap(s).getLong(Long.BYTES)))
                .map(s -> new String(s, head, s.length - head, StandardCharsets.UTF_8))
                .orElse("");
    }

    /**
     * Where something was not finite.
     *
     * @param batch number of the micro-batch among this rank's
     * @param place which of the parts that compute it one after another
     * @param where empty for nowhere
     */
    private record Found(int batch, int place, String where) {}

    /** Repeats the micro-batches under observation to find the first non-finite result; restores the recipes' state afterwards. */
    private Found searchOwn(List<MicroBatch> batches) {
        try (Arena arena = Arena.ofConfined()) {
            // moments do not change: only the programs of the micro-batches run
            Set<String> touched = batches.stream()
                    .flatMap(b -> loaded(b, true).chunks().stream())
                    .flatMap(c -> c.program().lasting().stream())
                    .map(Value::name)
                    .collect(Collectors.toSet());
            Map<String, Tensor> states = memory.copies(ValueRole.STATE, touched::contains, arena);
            Found found = new Found(-1, 0, "");
            memory.zeroGradients(); // what is added to a NaN would be found first
            for (int i = 0; i < batches.size() && (found.where().isEmpty() || othersNeedThis()); i++) {
                Found next = repeat(batches.get(i), i, found.where().isEmpty());
                found = found.where().isEmpty() ? next : found;
            }
            memory.restore(states);
            return found;
        }
    }

    /** Whether other ranks cannot compute a micro-batch without this one: they need its weights, or its part of the model. */
    private boolean othersNeedThis() {
        return cutsWeights() || isStaged() || cut != null;
    }

    /** Computes a micro-batch once more. */
    private Found repeat(MicroBatch batch, int number, boolean searches) {
        Loaded loaded = loaded(batch, true);
        draw(data.rank() + inStep(number));
        int parts = mesh.pipeline() * mesh.chunks();
        Found found = new Found(number, 0, "");
        for (CallOrder.Call call : new CallOrder(mesh.pipeline(), mesh.chunks(), mesh.pipeline())
                .of(pipeline.rank()).stream().filter(c -> c.microBatch() == 0).toList()) {
            Chunk chunk = loaded.chunks().get(call.chunk());
            int part = call.chunk() * mesh.pipeline() + pipeline.rank();
            NonFiniteSearch search = new NonFiniteSearch();
            if (!call.backward()) {
                chunk.begin(number);
                chunk.first().run(Phase.PREPARE);
            }
            Executable executable = chunk.of(number);
            executable.observe(searches && found.where().isEmpty() ? search : null);
            try {
                if (call.backward()) {
                    executable.run(Phase.BACKWARD);
                } else {
                    forward(loaded, chunk, executable, batch);
                }
            } finally {
                executable.observe(null);
            }
            if (call.backward()) {
                chunk.release(number);
            }
            int place = call.backward() ? 2 * parts - 1 - part : part;
            found = found.where().isEmpty()
                    ? new Found(number, place, search.where().orElse(""))
                    : found;
        }
        return found;
    }

    private void requireWholeGradients() {
        if (cut != null) {
            throw new InvalidOptionException(
                    "no rank has whole gradients, which a hook of the run reads",
                    "distributed.tensor: " + tensor.size() + "; " + world.name(),
                    "leave tensor out, or the hook");
        }
        if (cutsGradients() || isStaged()) {
            throw new InvalidOptionException(
                    "no rank has all gradients, which a hook of the run reads",
                    (isStaged()
                                    ? "distributed.pipeline: " + mesh.pipeline()
                                    : "distributed.zero: "
                                            + setup.shards().zero().number())
                            + "; " + world.name(),
                    isStaged() ? "leave the hook out" : "set distributed: {zero: 1}, or leave the hook out");
        }
    }

    private Gradients gradients() {
        Map<String, Value> values = update().program().squares();
        float inverse = setup.scaling().inverse(scale);
        return new Gradients() {
            @Override
            public List<String> names() {
                return values.keySet().stream().sorted().toList();
            }

            @Override
            public float[] read(String parameter) {
                return memory.readGradient(parameter, inverse);
            }
        };
    }

    /**
     * Mean loss of a micro-batch with the current weights, see {@link #ofAllRanks}; changes no state.
     *
     * @return empty on a rank whose part of the model has no loss
     */
    public Optional<LossValue> evaluate(MicroBatch batch) {
        Loaded loaded = loaded(batch, false);
        Optional<LossValue> loss = Optional.empty();
        for (Chunk chunk : loaded.chunks()) {
            chunk.first().run(Phase.PREPARE);
            Executable executable = chunk.begin(0);
            loss = forward(loaded, chunk, executable, batch).map(Supplier::get);
            chunk.release(0);
        }
        return loss;
    }

    /**
     * Measures products in the steps from now on; changes none of their numbers.
     *
     * @param watch null to stop
     */
    public void watch(@Nullable ProductWatch watch) {
        products = watch;
    }

    /**
     * Makes a delayed scale sound from the next cast on, as if all amaxes of its history had been this one.
     *
     * @param slot {@link Fp8Layer#slot}
     * @param spec how its tensor is quantised, with delayed scaling
     */
    public void seedScale(String slot, OperandSpec spec, float amax) {
        if (!(spec.scaling() instanceof Scaling.Delayed(int margin, int length, AmaxHistory.Algorithm algorithm))) {
            throw new IllegalArgumentException("the scale of " + slot + " is not delayed");
        }
        float[] history = new float[length];
        Arrays.fill(history, amax);
        float quantScale = AmaxHistory.update(history, 1, AmaxHistory.scaledMax(spec.format(), margin), algorithm);
        Arena arena = Arena.ofAuto();
        memory.restore(Map.of(
                slot + QUANT_SCALE, Tensor.ofFloats(arena, slot + QUANT_SCALE, Shape.of(1), quantScale),
                slot + HISTORY, Tensor.ofFloats(arena, slot + HISTORY, Shape.of(length), history)));
    }

    /** Loss-scaling state, with the scale of the next loss. */
    public LossScaling.State scale() {
        return scale;
    }

    /** Copies of the master weights, in F32 whatever they are kept in. */
    public Map<String, Tensor> parameters(Arena arena) {
        return decoded(memory.copies(ValueRole.PARAMETER, arena), tensor -> copy(tensor, arena));
    }

    private static Tensor copy(Tensor tensor, Arena arena) {
        Tensor copy = Tensor.allocate(arena, tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    /** Weights in F32: those that are kept in few bits are decoded. */
    private Map<String, Tensor> decoded(Map<String, Tensor> kept, UnaryOperator<Tensor> lasting) {
        StateForms states = setup.states();
        Map<String, Shape> shapes = codedShapes();
        if (shapes.isEmpty()) {
            return kept;
        }
        Map<String, Tensor> parts = memory.views(ValueRole.STATE, Arena.ofAuto());
        Map<String, Tensor> all = new TreeMap<>(kept);
        shapes.forEach((name, shape) -> {
            Tensor codes = kept.get(name);
            if (codes != null) {
                StateForm form = states.parameter(name, shape);
                try (Arena one = Arena.ofConfined()) {
                    all.put(name, lasting.apply(StateTensors.decode(form, name, shape, codes, parts, one)));
                }
            }
        });
        return all;
    }

    /** Shapes of the parameters that are kept in few bits. */
    private Map<String, Shape> codedShapes() {
        Map<String, Shape> shapes = new TreeMap<>();
        if (!setup.states().isF32()) {
            for (Parameter p : setup.parameters().all()) {
                if (!setup.states().parameter(p.name(), p.tensor().shape()).isF32()) {
                    shapes.put(p.name(), p.tensor().shape());
                }
            }
        }
        return shapes;
    }

    /** Views of the F32 master weights for writing a checkpoint, valid until the next step; weights kept in few bits are decoded. */
    public Map<String, Tensor> parameterViews(Arena arena) {
        return decoded(memory.views(ValueRole.PARAMETER, arena), tensor -> copy(tensor, arena));
    }

    /** Views of the master weights that are kept in F32, valid until the next step. */
    public Map<String, Tensor> plainParameterViews(Arena arena) {
        Map<String, Tensor> views = new TreeMap<>(memory.views(ValueRole.PARAMETER, arena));
        views.keySet().removeAll(codedShapes().keySet());
        return views;
    }

    /**
     * The other master weights, decoded as they are written; valid until the next step.
     *
     * @param without names that are left out
     */
    public CodedMasters codedMasters(Arena arena, Set<String> without) {
        Map<String, Tensor> kept = memory.views(ValueRole.PARAMETER, arena);
        Map<String, Shape> shapes = codedShapes();
        shapes.keySet().retainAll(kept.keySet());
        shapes.keySet().removeAll(without);
        if (shapes.isEmpty()) {
            return CodedMasters.NONE;
        }
        Map<String, Tensor> parts = memory.views(ValueRole.STATE, arena);
        return new CodedMasters() {
            @Override
            public List<TensorSpec> specs() {
                return shapes.entrySet().stream()
                        .map(e -> new TensorSpec(e.getKey(), DType.F32, e.getValue()))
                        .toList();
            }

            @Override
            public void write(String name, ByteSink sink) throws IOException {
                Shape shape = shapes.get(name);
                Tensor codes = kept.get(name);
                if (shape == null || codes == null) {
                    throw new IllegalArgumentException("'" + name + "' is not kept in few bits");
                }
                StateTensors.decode(setup.states().parameter(name, shape), name, shape, codes, parts, sink);
            }
        };
    }

    /** Views of moments, scales, histories and other state, codes of weights kept in few bits among them; valid until the next step. */
    public Map<String, Tensor> stateViews(Arena arena) {
        return withCodes(memory.views(ValueRole.STATE, arena), memory.views(ValueRole.PARAMETER, arena));
    }

    /**
     * Those of {@link #stateViews} that this rank writes into a checkpoint: the states it owns, on the first rank also what all ranks have. All of them where nothing is
     * shared out.
     */
    public Map<String, Tensor> ownStateViews(Arena arena) {
        Map<String, Tensor> all = new TreeMap<>(stateViews(arena));
        Sharding shares = sharding;
        Map<String, Integer> owners =
                shares == null ? Map.of() : shares.partition().owners();
        all.keySet().removeIf(name -> {
            OptionalInt owner = shares == null ? OptionalInt.empty() : shares.owner(name);
            return !writes(
                    name,
                    name.startsWith(CODES) ? owners.getOrDefault(name.substring(CODES.length()), 0) : owner.orElse(0));
        });
        return all;
    }

    /** Names of parameters and states that this rank has and a stage before it writes into a checkpoint; none where the model is not dealt out. All ranks call it together. */
    public Set<String> writtenElsewhere() {
        Set<String> elsewhere = new TreeSet<>();
        if (!isStaged()) {
            return elsewhere;
        }
        Set<String> names = new TreeSet<>(memory.shapes(ValueRole.PARAMETER).keySet());
        try (Arena arena = Arena.ofConfined()) {
            names.addAll(stateViews(arena).keySet());
        }
        byte[] own = String.join("\n", names).getBytes(StandardCharsets.UTF_8);
        pipeline.gather(own).stream()
                .limit(pipeline.rank())
                .flatMap(said -> new String(said, StandardCharsets.UTF_8).lines())
                .filter(names::contains)
                .forEach(elsewhere::add);
        return elsewhere;
    }

    /**
     * Those of {@link #plainParameterViews} that this rank writes into a checkpoint.
     *
     * @param elsewhere those that stages before this one write
     */
    public Map<String, Tensor> ownParameterViews(Arena arena, Set<String> elsewhere) {
        Map<String, Tensor> all = new TreeMap<>(plainParameterViews(arena));
        all.keySet().removeAll(elsewhere);
        Sharding shares = sharding;
        all.keySet()
                .removeIf(name -> !writes(
                        name, shares == null ? 0 : shares.weightOwner(name).orElse(0)));
        return all;
    }

    /** Whether this rank writes what a data-parallel rank has to write: its own part of it, or what all parts have on the first of them. */
    private boolean writes(String name, int owner) {
        return owner == data.rank() && (tensor.isFirst() || parts.containsKey(name));
    }

    /** Copies of moments, scales, histories and other state, codes of weights kept in few bits among them. */
    public Map<String, Tensor> state(Arena arena) {
        return withCodes(memory.copies(ValueRole.STATE, arena), memory.views(ValueRole.PARAMETER, arena));
    }

    private Map<String, Tensor> withCodes(Map<String, Tensor> state, Map<String, Tensor> parameters) {
        Map<String, Tensor> all = new TreeMap<>(state);
        codedShapes().keySet().forEach(name -> {
            Tensor codes = parameters.get(name);
            if (codes != null) {
                String saved = codesName(name);
                TensorSpec spec = new TensorSpec(saved, codes.dtype(), codes.shape());
                all.put(saved, new Tensor(spec, codes.bytes()));
            }
        });
        return all;
    }

    /** The name that a checkpoint has for the codes of a parameter: its own is that of the decoded one. */
    public static String codesName(String parameter) {
        return CODES + parameter;
    }

    /** The layers that the program for micro-batches of these shapes computes in FP8. */
    public Fp8Choice fp8(MicroBatch like) {
        return loaded(like, true).fp8();
    }

    /** Dequantisation multipliers of delayed scaling, by {@link Fp8Layer#slot}. */
    public Map<String, Float> scales() {
        Map<String, Float> scales = new TreeMap<>();
        memory.floats(name -> name.startsWith(FP8) && name.endsWith(QUANT_SCALE))
                .forEach((name, x) -> scales.put(
                        name.substring(0, name.length() - QUANT_SCALE.length()), QuantScaleRule.scale(x[0])));
        return scales;
    }

    /** Scales or amaxes of all stages of the model, from those of this one; they call it together. */
    public Map<String, Float> ofAllStages(Map<String, Float> own) {
        return isStaged() ? StageReports.numbers(pipeline, own) : own;
    }

    /**
     * Whole parameters, from this rank's parts of them; ranks that share layers call it together.
     *
     * @param arena owns what is put together
     */
    public Map<String, Tensor> whole(Map<String, Tensor> own, Arena arena) {
        TensorCut cuts = cut;
        Map<String, Tensor> all = new TreeMap<>(own);
        all.replaceAll((name, part) -> cuts == null || !cuts.parts().containsKey(name)
                ? part
                : cuts.whole(part.spec(), tensor.gather(part.bytes().toArray(ValueLayout.JAVA_BYTE)), arena));
        return all;
    }

    /**
     * Parameters of all stages of the model, from those of this one; they call it together.
     *
     * @param arena owns the copies of those of other stages
     */
    public Map<String, Tensor> ofAllStages(Map<String, Tensor> own, Arena arena) {
        return isStaged() ? StageReports.parameters(pipeline, own, arena) : own;
    }

    /** Amaxes of the last step by {@link Fp8Layer#slot}: of inputs, and with delayed scaling of weights and gradients. */
    public Map<String, Float> amaxes() {
        Map<String, Float> amaxes = new TreeMap<>();
        // the newest entry of a history is its last
        memory.floats(name -> name.startsWith(FP8) && name.contains(AMAX))
                .forEach((name, x) -> amaxes.put(name.substring(0, name.lastIndexOf(AMAX)), x[x.length - 1]));
        return amaxes;
    }

    /**
     * Resumes from a checkpoint. Where ranks share states out, or parts of the model, after {@link #prepare}: only then it is known which are this rank's.
     *
     * @throws InvalidDataException when a tensor has the wrong type or shape
     */
    public void restore(Map<String, Tensor> parameters, Map<String, Tensor> state, LossScaling.State lossScale) {
        Map<String, Tensor> weights = new TreeMap<>(parameters);
        Map<String, Tensor> own = new TreeMap<>(state);
        codedShapes().forEach((name, shape) -> {
            Tensor master = weights.remove(name);
            // the codes say more than the numbers they were decoded to: a scale that has room
            Tensor codes = own.remove(codesName(name));
            if (codes != null) {
                weights.put(name, codes);
            } else if (master != null) {
                weights.putAll(StateTensors.encode(setup.states().parameter(name, shape), master));
            }
        });
        Sharding shares = sharding;
        if (shares != null) {
            weights.keySet().removeIf(name -> isOthers(shares.weightOwner(name), name));
        }
        memory.restore(own(ofStage(weights)));
        if (shares != null) {
            // the states of other ranks; of weights in few bits all have all parts
            own.keySet().removeIf(name -> isOthers(shares.owner(name), name));
        }
        memory.restore(own(ofStage(own)));
        scale = lossScale;
        restored = true;
    }

    /** Those of tensors that this rank's stage of the model uses. */
    private Map<String, Tensor> ofStage(Map<String, Tensor> all) {
        if (isStaged()) {
            all.keySet().removeIf(name -> !memory.has(name));
        }
        return all;
    }

    /** What this rank has of whole tensors. */
    private Map<String, Tensor> own(Map<String, Tensor> whole) {
        if (parts.isEmpty()) {
            return whole;
        }
        Map<String, Tensor> own = new TreeMap<>(whole);
        own.replaceAll((name, tensor) -> {
            Part part = parts.get(name);
            return part != null && part.whole().equals(tensor.shape()) ? part.of(tensor, Arena.ofAuto()) : tensor;
        });
        return own;
    }

    private boolean isOthers(OptionalInt owner, String name) {
        return owner.orElse(data.rank()) != data.rank() && !memory.has(name);
    }

    /** Whether weights and state are those of a checkpoint. */
    public boolean isRestored() {
        return restored;
    }

    /**
     * Sets parameters that are kept in F32.
     *
     * @throws InvalidDataException when a tensor has the wrong type or shape
     */
    public void put(Map<String, Tensor> parameters) {
        memory.restore(ofStage(new TreeMap<>(parameters)));
    }

    /** Has the parameters with a learning rate of their own stay as they are from the next step on. */
    public void hold() {
        held = true;
    }

    @Override
    public void close() {
        programs.close();
        if (update != null) {
            update.all().forEach(Executable::close);
        }
        if (ranks != null) {
            ranks.close();
        }
        memory.close();
        scalars.close();
    }
}
