package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.activation.WeightCasts;
import dev.octet.trainer.checkpoint.CodedMasters;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.cut.TensorCut;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.hook.StepWork;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.optimizer.StepRate;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.Fp8Choice;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.shard.Stages;
import dev.octet.trainer.state.StateForms;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A model on a device, ready for training. Programs are built when the shapes of a micro-batch first occur; those of the {@value
 * RecentPrograms#MAX} most recently used shapes are kept. Not thread-safe.
 */
public final class TrainingSession implements AutoCloseable {
    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private final OwnParts parts;
    private final ModelPrograms models;
    private final SessionPrograms programs;
    private final SessionPlans plans;
    private final MicroBatchPasses passes;
    private @Nullable Supplier<List<MicroBatch>> drawsNext;
    private final SessionTensors tensors;
    private final SessionScales scales;
    private final Scalars scalars;
    private @Nullable TensorWatch tensorWatch;
    private LossScaling.State scale;
    private @Nullable ProductWatch products;
    private boolean held;
    private boolean restored;

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
        if (!groups.isAlone() && setup.ranks().ranks() != groups.data().size()) {
            throw new IllegalArgumentException(
                    groups.world().name() + " in a run of " + setup.ranks().ranks());
        }
        this.setup = setup;
        this.scale = setup.scaling().initial();
        this.ranks = new SessionRanks(groups, setup.shards());
        this.memory = new PersistentBuffers(device, setup.states(), offload);
        this.parts = new OwnParts(setup, ranks, memory);
        WeightCasts casts = offload.isOn() ? WeightCasts.OF_A_STEP : WeightCasts.OF_A_LAYER;
        this.models = new ModelPrograms(setup, parts, casts);
        this.programs = new SessionPrograms(setup, ranks, memory, parts, models);
        this.plans = new SessionPlans(setup, ranks, memory, models, programs);
        this.passes = new MicroBatchPasses(setup, ranks, memory, programs);
        this.tensors = new SessionTensors(setup, ranks, memory, parts, programs);
        this.scales = new SessionScales(memory, ranks);
        this.scalars = new Scalars();
    }

    /**
     * Computes by another policy from the next step or evaluation on. Weights, moments, the loss scale and the state of scales stay; programs are built anew when
     * they are next needed.
     */
    public void usePolicy(PrecisionPolicy next) {
        programs.use(next);
    }

    /** The policy that steps are computed by. */
    public PrecisionPolicy policy() {
        return models.policy();
    }

    /** Builds the programs for micro-batches of these shapes, so that untrainable models are rejected before the first step. */
    public void prepare(MicroBatch like) {
        programs.of(like, true);
    }

    /** The program for micro-batches of these shapes; where stages compute it, that of all of them. */
    public Program program(MicroBatch like) {
        return programs.of(like, true).program();
    }

    /** What the program for micro-batches of these shapes keeps between forward and backward. */
    public ActivationPlan activations(MicroBatch like) {
        return programs.of(like, true).activations();
    }

    /** What this rank does of a step with micro-batches of these shapes. */
    public StepWork work(MicroBatch like) {
        return plans.work(like);
    }

    /** Shapes of the weights that the programs built so far use. */
    public Map<String, Shape> parameterShapes() {
        return tensors.parameterShapes();
    }

    /** Whether this rank has only its own weights between their uses. */
    public boolean cutsWeights() {
        return ranks.cutsWeights();
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
        return programs.optimizerBuffers();
    }

    /** Who owns what and what travels together, which is the same on all ranks; empty where nothing is shared out, or before the first program is built. */
    public Optional<String> shares() {
        return programs.sharding().map(Sharding::text);
    }

    /** How tensors are kept between steps. */
    public StateForms states() {
        return setup.states();
    }

    /** Bytes of what is kept for the trained parameters so far, by part; adapters and masters in F32 included. */
    public StatePlan statePlan(String engine, long trainedElements) {
        return plans.statePlan(engine, trainedElements);
    }

    /** Bytes of inputs, constants and temporaries of all programs so far. */
    public long temporaryBytes() {
        return programs.temporaryBytes();
    }

    /** How ranks share layers; empty where they do not, or before the first program is built. */
    public Optional<TensorCut> cut() {
        return parts.cut();
    }

    /** What this rank has of weights and states that are cut, by name. */
    public Map<String, Part> parts() {
        return parts.byName();
    }

    /** Whether this rank computes a part of the model. */
    public boolean isStaged() {
        return ranks.isStaged();
    }

    /** How the model is dealt out to stages; empty where it is not, or before the first program is built. */
    public Optional<Stages> stages() {
        return programs.stages();
    }

    /** What each stage of sharing out has a rank keep; empty for a run without ranks, and for one whose model is dealt out. */
    public Optional<ZeroPlan> zeroPlan(MicroBatch like) {
        return plans.zeroPlan(like);
    }

    /** What each stage of a pipeline has and does; empty for a run without stages. */
    public Optional<StagePlan> stagePlan(MicroBatch like) {
        return plans.stagePlan(like);
    }

    /** The number of the next step, from 1; what dropout keeps follows from it. Each step adds one. */
    public void at(long next) {
        passes.at(next);
    }

    /** Has the next step's tensors read; does not change its numbers. */
    public void watchNext(TensorWatch watch) {
        tensorWatch = watch;
    }

    /**
     * What draws the batches of the step after the next one: called in the next step while a device computes it, which copies them meanwhile; not at all where the
     * host computes.
     *
     * @param draws gives what the step after the next one is called with; other batches cost time and change nothing
     */
    public void whileComputing(Supplier<List<MicroBatch>> draws) {
        drawsNext = draws;
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
        if (ranks.cutsGradients() && batches.size() != setup.shards().microBatches()) {
            throw new IllegalArgumentException(
                    batches.size() + " micro-batches, not " + setup.shards().microBatches());
        }
        batches.forEach(this::prepare);
        memory.zeroGradients(passes.overwritten(batches));
        Collectives world = ranks.world();
        UpdateProgram program = programs.update().program();
        scalars.write(memory.memory(), program.badLoss(), 0);
        Fp8Watch watch = measuresFp8 ? new Fp8Watch() : null;
        StepWatches watches = new StepWatches(watch, tensorWatch, products);
        tensorWatch = null;
        List<Supplier<LossValue>> losses = passes.forwardAndBackward(batches, watches, scale.scale());
        if (!world.isAlone()) {
            watches.share(ranks);
            float bad = (float) memory.readNumber(program.badLoss());
            scalars.write(memory.memory(), program.badLoss(), world.allReduce(bad, RankReduction.MAX));
        }
        if (afterBackward != null) {
            requireWholeGradients();
            afterBackward.accept(gradients());
        }
        scalars.write(memory.memory(), program.learningRate(), (float) rate.lr());
        programs.update()
                .ownRates()
                .forEach((multiple, value) ->
                        scalars.write(memory.memory(), value, held ? 0 : (float) (rate.lr() * multiple)));
        Value beta1 = programs.update().beta1();
        if (beta1 != null && rate.beta1().isPresent()) {
            scalars.write(memory.memory(), beta1, (float) rate.beta1().getAsDouble());
        }
        scalars.write(memory.memory(), program.unscale(), setup.scaling().inverse(scale));
        programs.update().run();
        // the device has already decided whether the step counts: the host waits only from here on
        Fetched norm = memory.memory().fetch(program.norm());
        Fetched nonFinite = memory.memory().fetch(program.nonFinite());
        Supplier<List<MicroBatch>> draws = drawsNext;
        drawsNext = null;
        if (draws != null && memory.memory().start()) {
            passes.stage(draws.get(), batches);
        }
        LossValue loss =
                LossValue.mean(ofAllRanks(losses.stream().map(Supplier::get).toList()));
        boolean counts = Scalars.of(nonFinite) == 0;
        StepResult result = result(
                batches, loss, Scalars.of(norm), counts, watch == null ? List.of() : watch.tensors(ranks.pipeline()));
        passes.advance();
        return result;
    }

    /** The losses of the micro-batches of all ranks, on each of them, from those that this one has computed. */
    public List<LossValue> ofAllRanks(List<LossValue> own) {
        return RankLosses.of(ranks.data(), RankLosses.ofLast(ranks.pipeline(), own));
    }

    private StepResult result(
            List<MicroBatch> batches, LossValue loss, double norm, boolean counts, List<Fp8Tensor> fp8) {
        double before = scale.scale();
        String bad = "";
        if (!counts) {
            bad = Double.isFinite(loss.total()) ? badGradients(programs.update().program()) : "loss";
        }
        // with dynamic loss scaling an overflow is expected and does not point to a problem in the model
        boolean searched =
                !bad.isEmpty() && (bad.equals("loss") || !setup.scaling().isDynamic());
        String where = searched ? new RepeatedStep(ranks, memory, programs, passes, parts).search(batches) : "";
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
                Optional.ofNullable(programs.gradients()).flatMap(RankGradients::report));
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

    private void requireWholeGradients() {
        if (parts.isCut()) {
            throw new InvalidOptionException(
                    "no rank has whole gradients, which a hook of the run reads",
                    "distributed.tensor: " + ranks.tensor().size() + "; "
                            + ranks.world().name(),
                    "leave tensor out, or the hook");
        }
        if (ranks.cutsGradients() || ranks.isStaged()) {
            throw new InvalidOptionException(
                    "no rank has all gradients, which a hook of the run reads",
                    (ranks.isStaged()
                                    ? "distributed.pipeline: " + ranks.mesh().pipeline()
                                    : "distributed.zero: "
                                            + setup.shards().zero().number())
                            + "; " + ranks.world().name(),
                    ranks.isStaged() ? "leave the hook out" : "set distributed: {zero: 1}, or leave the hook out");
        }
    }

    private Gradients gradients() {
        Map<String, Value> values = programs.update().program().squares();
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
        return passes.evaluate(batch);
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
        scales.seedScale(slot, spec, amax);
    }

    /** Loss-scaling state, with the scale of the next loss. */
    public LossScaling.State scale() {
        return scale;
    }

    /** Copies of the master weights, in F32 whatever they are kept in. */
    public Map<String, Tensor> parameters(Arena arena) {
        return tensors.parameters(arena);
    }

    /** Views of the F32 master weights for writing a checkpoint, valid until the next step; weights kept in few bits are decoded. */
    public Map<String, Tensor> parameterViews(Arena arena) {
        return tensors.parameterViews(arena);
    }

    /** Views of the master weights that are kept in F32, valid until the next step. */
    public Map<String, Tensor> plainParameterViews(Arena arena) {
        return tensors.plainParameterViews(arena);
    }

    /**
     * The other master weights, decoded as they are written; valid until the next step.
     *
     * @param without names that are left out
     */
    public CodedMasters codedMasters(Arena arena, Set<String> without) {
        return tensors.codedMasters(arena, without);
    }

    /** Views of moments, scales, histories and other state, codes of weights kept in few bits among them; valid until the next step. */
    public Map<String, Tensor> stateViews(Arena arena) {
        return tensors.stateViews(arena);
    }

    /**
     * Those of {@link #stateViews} that this rank writes into a checkpoint: the states it owns, on the first rank also what all ranks have. All of them where nothing is
     * shared out.
     */
    public Map<String, Tensor> ownStateViews(Arena arena) {
        return tensors.ownStateViews(arena);
    }

    /** Names of parameters and states that this rank has and a stage before it writes into a checkpoint; none where the model is not dealt out. All ranks call it together. */
    public Set<String> writtenElsewhere() {
        return tensors.writtenElsewhere();
    }

    /**
     * Those of {@link #plainParameterViews} that this rank writes into a checkpoint.
     *
     * @param elsewhere those that stages before this one write
     */
    public Map<String, Tensor> ownParameterViews(Arena arena, Set<String> elsewhere) {
        return tensors.ownParameterViews(arena, elsewhere);
    }

    /** Copies of moments, scales, histories and other state, codes of weights kept in few bits among them. */
    public Map<String, Tensor> state(Arena arena) {
        return tensors.state(arena);
    }

    /** The name that a checkpoint has for the codes of a parameter: its own is that of the decoded one. */
    public static String codesName(String parameter) {
        return SessionTensors.codesName(parameter);
    }

    /** The layers that the program for micro-batches of these shapes computes in FP8. */
    public Fp8Choice fp8(MicroBatch like) {
        return programs.of(like, true).fp8();
    }

    /** Ids of the Linears of experts that this program computes as one, by the node that does. */
    public Map<String, List<String>> experts(MicroBatch like) {
        return programs.of(like, true).experts();
    }

    /** Dequantisation multipliers of delayed scaling, by {@link Fp8Layer#slot}. */
    public Map<String, Float> scales() {
        return scales.scales();
    }

    /** Scales or amaxes of all stages of the model, from those of this one; they call it together. */
    public Map<String, Float> ofAllStages(Map<String, Float> own) {
        return isStaged() ? RankReports.numbers(ranks.pipeline(), own) : own;
    }

    /**
     * Whole parameters, from this rank's parts of them; ranks that share layers call it together.
     *
     * @param arena owns what is put together
     */
    public Map<String, Tensor> whole(Map<String, Tensor> own, Arena arena) {
        return parts.whole(own, arena);
    }

    /**
     * Parameters of all stages of the model, from those of this one; they call it together.
     *
     * @param arena owns the copies of those of other stages
     */
    public Map<String, Tensor> ofAllStages(Map<String, Tensor> own, Arena arena) {
        return isStaged() ? RankReports.parameters(ranks.pipeline(), own, arena) : own;
    }

    /** Amaxes of the last step by {@link Fp8Layer#slot}: of inputs, and with delayed scaling of weights and gradients. */
    public Map<String, Float> amaxes() {
        return scales.amaxes();
    }

    /**
     * Resumes from a checkpoint. Where ranks share states out, or parts of the model, after {@link #prepare}: only then it is known which are this rank's.
     *
     * @throws InvalidDataException when a tensor has the wrong type or shape
     */
    public void restore(Map<String, Tensor> parameters, Map<String, Tensor> state, LossScaling.State lossScale) {
        tensors.restore(parameters, state);
        scale = lossScale;
        restored = true;
    }

    /** What this rank has of the parameters of a whole model, as a checkpoint gives them; known after {@link #prepare}. */
    public Map<String, Tensor> ownParameters(Map<String, Tensor> whole) {
        return tensors.ownParameters(whole);
    }

    /** What this rank has of the states of a whole model, codes of weights kept in few bits among them; known after {@link #prepare}. */
    public Map<String, Tensor> ownStates(Map<String, Tensor> whole) {
        return tensors.ownStates(whole);
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
        tensors.put(parameters);
    }

    /** Has the parameters with a learning rate of their own stay as they are from the next step on. */
    public void hold() {
        held = true;
    }

    @Override
    public void close() {
        programs.close();
        memory.close();
        scalars.close();
    }
}
