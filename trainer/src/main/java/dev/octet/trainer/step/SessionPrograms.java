package dev.octet.trainer.step;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.shard.Stages;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The programs of a session on its device. They are built when the shapes of a micro-batch first occur; those of the {@value
 * RecentPrograms#MAX} most recently used shapes are kept.
 */
final class SessionPrograms implements AutoCloseable {
    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private final OwnParts parts;
    private final ModelPrograms models;
    private final RecentPrograms<Key, LoadedPrograms> programs = new RecentPrograms<>(LoadedPrograms::close);
    private @Nullable LoadedUpdate update;
    private @Nullable RankGradients gradients;
    private @Nullable Sharding sharding;
    private @Nullable Stages stages;

    private record Key(Map<String, Shape> shapes, boolean trains) {}

    /**
     * @param parts what this rank has of the model
     * @param models what is loaded
     */
    SessionPrograms(
            TrainingSetup setup, SessionRanks ranks, PersistentBuffers memory, OwnParts parts, ModelPrograms models) {
        this.setup = setup;
        this.ranks = ranks;
        this.memory = memory;
        this.parts = parts;
        this.models = models;
    }

    /** See {@link TrainingSession#usePolicy}. */
    void use(PrecisionPolicy next) {
        if (!next.equals(models.policy())) {
            programs.clear();
            models.use(next);
            if (sharding != null) {
                sharding.precisionChanges();
            }
        }
    }

    /** The update; there is one once a training program was built. */
    LoadedUpdate update() {
        return Objects.requireNonNull(update, "no program was built yet");
    }

    /** Names of the optimizer's buffers, by parameter; empty before the first program is built. */
    Map<String, Set<String>> optimizerBuffers() {
        Map<String, Set<String>> buffers = new TreeMap<>();
        if (update != null) {
            update.program().memory().forEach((name, memory) -> buffers.put(name, memory.keySet()));
        }
        return buffers;
    }

    /** How ranks exchange gradients; null where there is nothing to exchange. */
    @Nullable
    RankGradients gradients() {
        return gradients;
    }

    /** Who owns what; empty where nothing is shared out, or before the first program is built. */
    Optional<Sharding> sharding() {
        return Optional.ofNullable(sharding);
    }

    /** How the model is dealt out to stages; empty where it is not, or before the first program is built. */
    Optional<Stages> stages() {
        return Optional.ofNullable(stages);
    }

    /** Bytes of inputs, constants and temporaries of all programs so far. */
    long temporaryBytes() {
        return programs.all().stream()
                        .flatMap(l -> l.chunks().stream())
                        .mapToLong(Chunk::bytes)
                        .sum()
                + (update == null
                        ? 0
                        : update.all().stream().mapToLong(Executable::bytes).sum());
    }

    /** The programs for micro-batches of these shapes. */
    LoadedPrograms of(MicroBatch batch, boolean trains) {
        return programs.get(new Key(batch.shapes(), trains), _ -> make(batch, trains));
    }

    private LoadedPrograms make(MicroBatch batch, boolean trains) {
        LossGraph graph = models.graph(batch);
        Program plain = models.plain(graph, trains);
        return ranks.isStaged() ? makeStaged(graph, plain, trains, batch) : makeWhole(graph, plain, trains);
    }

    private LoadedPrograms makeWhole(LossGraph graph, Program plain, boolean trains) {
        ActivationPlan plan = models.planned(plain);
        boolean scalesLater = trains && (setup.ranks().isOn() || parts.isCut());
        Program whole = parts.among(scalesLater ? SharedScales.without(plan.program()) : plan.program());
        if (trains && sharding == null && ranks.isSharded()) {
            sharding = share(whole, setup.shards());
        }
        Sharding shares = sharding;
        Program program =
                shares == null ? whole : shares.program(whole, ranks.data().rank(), ranks.data());
        UpdateProgram made = null;
        if (trains && update == null) {
            made = shares == null
                    ? models.update(program)
                    : shares.update(ranks.data().rank(), ranks.data());
            made = parts.among(made);
        }
        memory.requireRoom(made == null ? List.of(program) : List.of(program, made.program()));
        SharedScales scales = scalesLater
                ? new SharedScales(
                        plan.program(),
                        Set.of(Phase.values()),
                        _ -> true,
                        setup.ranks().ranks(),
                        memory,
                        ranks.groups())
                : null;
        Chunk chunk = new Chunk(program, memory, 1, null, scales);
        if (made != null) {
            update = new LoadedUpdate(
                    made, memory.load(made.program()), made.beta1().orElse(null), made.ownRates(), null, null);
        }
        if (trains && gradients == null && setup.ranks().isOn() && !ranks.cutsGradients()) {
            gradients = loadGradients(program);
        }
        return loaded(graph, program, List.of(chunk), plan, trains);
    }

    private LoadedPrograms loaded(
            LossGraph graph, Program program, List<Chunk> chunks, ActivationPlan plan, boolean trains) {
        String loss = trains ? Program.LOSS : graph.loss();
        return new LoadedPrograms(
                program,
                chunks,
                loss,
                graph.parts(),
                graph.counted(),
                models.fp8(graph, program),
                LinearModule.groups(graph.model().graph()),
                plan);
    }

    /** The chunks of this rank's stage. */
    private LoadedPrograms makeStaged(LossGraph graph, Program plain, boolean trains, MicroBatch batch) {
        Program whole = parts.among(trains ? SharedScales.without(plain) : plain);
        Stages dealt = stages;
        if (dealt == null) {
            Program training = trains ? whole : SharedScales.without(models.plain(graph, true));
            // of all layers, so that ranks which share them are cut in the same places
            Program model = parts.isCut() ? models.plain(models.whole(batch), true) : training;
            dealt = new Stages(
                    model,
                    training,
                    models.update(training),
                    setup.states(),
                    ranks.mesh().pipeline(),
                    ranks.mesh().chunks());
            stages = dealt;
        }
        ActivationPlan.require(whole, setup.activations());
        int stage = ranks.pipeline().rank();
        List<Integer> inFlight = new ArrayList<>();
        List<ActivationPlan> plans = new ArrayList<>();
        UpdateProgram made = trains && update == null ? parts.among(stagedUpdate(dealt)) : null;
        Sharding shares = sharding;
        List<Program> own = new ArrayList<>();
        List<Program> together = new ArrayList<>();
        for (int c = 0; c < ranks.mesh().chunks(); c++) {
            plans.add(models.plannedPart(dealt.program(whole, stage, c, ranks.pipeline())));
            Program part = plans.getLast().program();
            own.add(shares == null ? part : shares.program(part, c, ranks.data().rank(), ranks.data()));
            inFlight.add(trains ? ranks.order(setup.shards().microBatches()).inFlight(stage, c) : 1);
            for (int i = 0; i < inFlight.get(c); i++) {
                together.add(own.getLast());
            }
        }
        if (made != null) {
            together.add(made.program());
        }
        memory.requireRoom(together);
        List<Chunk> chunks = new ArrayList<>();
        for (int c = 0; c < ranks.mesh().chunks(); c++) {
            SharedScales forward = null;
            SharedScales backward = null;
            if (trains) {
                // those of other ranks' weights, too: all have their scales
                Set<String> used = plans.get(c).program().lasting().stream()
                        .map(Value::name)
                        .collect(Collectors.toSet());
                forward = scales(plain, Set.of(Phase.PREPARE, Phase.FORWARD), used);
                backward = scales(plain, Set.of(Phase.BACKWARD), used);
            }
            chunks.add(new Chunk(own.get(c), memory, inFlight.get(c), forward, backward));
        }
        if (made != null) {
            update = new LoadedUpdate(
                    made,
                    memory.load(made.program()),
                    made.beta1().orElse(null),
                    made.ownRates(),
                    memory.load(dealt.beforeUpdate(stage, ranks.pipeline())),
                    memory.load(dealt.afterUpdate(stage, ranks.pipeline())));
        }
        if (trains && gradients == null && setup.ranks().isOn()) {
            Program averaged = ranks.cutsGradients() ? dealt.sharedGradients(stage) : dealt.gradients(stage);
            gradients = averaged.gradients().isEmpty() ? null : loadGradients(averaged);
        }
        return loaded(graph, whole, chunks, plans.getFirst(), trains);
    }

    private SharedScales scales(Program training, Set<Phase> phases, Set<String> used) {
        return new SharedScales(training, phases, used::contains, setup.ranks().ranks(), memory, ranks.groups());
    }

    private UpdateProgram stagedUpdate(Stages dealt) {
        UpdateProgram own = dealt.update(ranks.pipeline().rank(), ranks.pipeline());
        if (!ranks.isSharded()) {
            return own;
        }
        sharding = Sharding.ofStage(
                dealt,
                ranks.pipeline().rank(),
                own,
                setup.states(),
                setup.shards(),
                ranks.data().size());
        return sharding.update(ranks.data().rank(), ranks.data());
    }

    private Sharding share(Program training, ShardSettings settings) {
        return new Sharding(
                training,
                models.update(training),
                setup.states(),
                settings,
                ranks.data().size());
    }

    private RankGradients loadGradients(Program training) {
        RankSettings settings = setup.ranks();
        Set<String> matrices = models.codedGradients();
        return ranks.data().isAlone()
                ? new SimulatedGradients(settings, RankPrograms.of(training, settings, matrices), memory)
                : new ExchangedGradients(
                        settings,
                        RankPrograms.ofOne(training, settings, matrices),
                        memory,
                        ranks.groups(),
                        parts.shared(),
                        setup.shards().bucketBytes());
    }

    @Override
    public void close() {
        programs.close();
        if (update != null) {
            update.all().forEach(Executable::close);
        }
        if (gradients != null) {
            gradients.close();
        }
    }
}
