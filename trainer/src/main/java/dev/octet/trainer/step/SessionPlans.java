package dev.octet.trainer.step;

import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.hook.StepWork;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.shard.CallOrder;
import dev.octet.trainer.shard.Stages;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** What the steps of a session take: work and memory, told before or between them. */
final class SessionPlans {
    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private final ModelPrograms models;
    private final SessionPrograms programs;

    SessionPlans(
            TrainingSetup setup,
            SessionRanks ranks,
            PersistentBuffers memory,
            ModelPrograms models,
            SessionPrograms programs) {
        this.setup = setup;
        this.ranks = ranks;
        this.memory = memory;
        this.models = models;
        this.programs = programs;
    }

    /** What this rank does of a step with micro-batches of these shapes. */
    StepWork work(MicroBatch like) {
        long forward = 0;
        long products = 0;
        long again = 0;
        long bytes = 0;
        List<Program> chunks =
                programs.of(like, true).chunks().stream().map(c -> c.program()).toList();
        List<Step> steps = chunks.stream().flatMap(c -> c.steps().stream()).toList();
        for (Step s : steps) {
            StepCost cost = StepCost.of(s);
            if (StepCost.isProduct(s)) {
                forward += s.phase() == Phase.FORWARD ? cost.flops() : 0;
                products += cost.flops();
                again += s.repeats() ? cost.flops() : 0;
            } else if (s.phase() != Phase.PREPARE) {
                bytes += cost.bytes();
            }
        }
        List<Step> microBatch =
                steps.stream().filter(s -> s.phase() != Phase.PREPARE).toList();
        List<Step> once = new ArrayList<>(
                steps.stream().filter(s -> s.phase() == Phase.PREPARE).toList());
        Program update = programs.update().program().program();
        once.addAll(update.steps());
        Map<Value, List<Float>> states = new HashMap<>(update.initialStates());
        chunks.forEach(c -> states.putAll(c.initialStates()));
        long decoded = Fp8Linear.decodedBytes(steps.stream().map(Step::op).flatMap(Fp8Linear::of));
        return new StepWork(forward, products, again, bytes, microBatch, once, states, decoded);
    }

    /** Bytes of what is kept for the trained parameters so far, by part; adapters and masters in F32 included. */
    StatePlan statePlan(String engine, long trainedElements) {
        Set<String> moments = new HashSet<>();
        programs.optimizerBuffers().values().forEach(moments::addAll);
        // those of a stage are kept for its own parameters
        long elements = ranks.isStaged()
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

    /** What each stage of sharing out has a rank keep; empty for a run without ranks, and for one whose model is dealt out. */
    Optional<ZeroPlan> zeroPlan(MicroBatch like) {
        RankSettings settings = setup.ranks();
        if (!settings.isOn() || ranks.isStaged()) {
            return Optional.empty();
        }
        Program training =
                models.planned(models.plain(models.graph(like), true)).program();
        RankPrograms averaging = RankPrograms.ofOne(training, settings, models.codedGradients());
        ShardMemory memories =
                new ShardMemory(training, models.update(training), averaging, setup.states(), setup.shards());
        return Optional.of(memories.plan(settings.ranks()));
    }

    /** What each stage of a pipeline has and does; empty for a run without stages. */
    Optional<StagePlan> stagePlan(MicroBatch like) {
        if (!ranks.isStaged()) {
            return Optional.empty();
        }
        programs.of(like, true);
        Stages dealt = programs.stages().orElseThrow();
        Program training = SharedScales.without(models.plain(models.graph(like), true));
        CallOrder order = ranks.order(setup.shards().microBatches());
        return Optional.of(new StageMemory(dealt, training, order, setup, models.casts()).plan());
    }
}
