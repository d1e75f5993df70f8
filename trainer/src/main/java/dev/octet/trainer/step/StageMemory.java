package dev.octet.trainer.step;

import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.activation.WeightCasts;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.shard.CallOrder;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.shard.Stages;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the stages of a pipeline keep in memory, from the programs that they would run.
 *
 * @param training not cut
 * @param order of the calls of a step
 */
record StageMemory(Stages stages, Program training, CallOrder order, TrainingSetup setup, WeightCasts casts) {
    StagePlan plan() {
        List<StagePlan.Stage> all = new ArrayList<>();
        for (int s = 0; s < order.stages(); s++) {
            all.add(stage(s));
        }
        return new StagePlan(order.chunks(), order.microBatches(), all);
    }

    /** What a rank of a stage has. */
    private record Rank(Map<String, Value> lasting, long temporary) {}

    /** Of the data-parallel rank that keeps most, where these share out what the stage has. */
    private StagePlan.Stage stage(int stage) {
        Collectives none = Collectives.alone(); // nothing runs
        List<Program> chunks = new ArrayList<>();
        int inFlight = 0;
        for (int c = 0; c < order.chunks(); c++) {
            chunks.add(ActivationPlan.ofPart(stages.program(training, stage, c, none), setup.activations(), casts, none)
                    .program());
            inFlight += order.inFlight(stage, c);
        }
        UpdateProgram update = stages.update(stage, none);
        int ranks = setup.ranks().ranks();
        Rank most;
        if (ranks == 1 || !setup.shards().isOn()) {
            most = rank(stage, chunks, update.program(), false);
        } else {
            Sharding sharding = Sharding.ofStage(stages, stage, update, setup.states(), setup.shards(), ranks);
            most = new Rank(Map.of(), 0);
            for (int r = 0; r < ranks; r++) {
                List<Program> own = new ArrayList<>();
                for (int c = 0; c < chunks.size(); c++) {
                    own.add(sharding.program(chunks.get(c), c, r, none));
                }
                boolean cuts = setup.shards().zero().cutsGradients();
                Rank next = rank(stage, own, sharding.update(r, none).program(), cuts);
                most = bytes(next.lasting) > bytes(most.lasting) ? next : most;
            }
        }
        long weights = most.lasting.values().stream()
                .filter(v -> v.role() == ValueRole.PARAMETER)
                .mapToLong(v -> v.type().count())
                .sum();
        return new StagePlan.Stage(parts(stage), share(stage), weights, inFlight, bytes(most.lasting), most.temporary);
    }

    /** @param cutsGradients whether gradients that one stage has are averaged to their owners */
    private Rank rank(int stage, List<Program> chunks, Program update, boolean cutsGradients) {
        Collectives none = Collectives.alone();
        List<Program> besides =
                new ArrayList<>(List.of(stages.beforeUpdate(stage, none), stages.afterUpdate(stage, none), update));
        if (setup.ranks().isOn()) {
            Program averaged = cutsGradients ? stages.sharedGradients(stage) : stages.gradients(stage);
            RankPrograms averaging = RankPrograms.ofOne(averaged, setup.ranks(), Set.of());
            besides.add(averaging.collect().getFirst());
            besides.add(averaging.average());
        }
        Map<String, Value> lasting = new HashMap<>();
        long temporary = 0;
        for (int c = 0; c < chunks.size(); c++) {
            note(chunks.get(c), lasting);
            temporary += order.inFlight(stage, c) * arena(chunks.get(c));
        }
        for (Program program : besides) {
            note(program, lasting);
            temporary += arena(program);
        }
        return new Rank(lasting, temporary);
    }

    private static void note(Program program, Map<String, Value> lasting) {
        program.lasting().forEach(v -> lasting.put(v.name(), v));
    }

    private static long bytes(Map<String, Value> lasting) {
        return lasting.values().stream().mapToLong(v -> v.type().byteSize()).sum();
    }

    private static long arena(Program program) {
        return MemoryPlan.of(program).arenaBytes() + MemoryPlan.bytes(program, ValueRole.CONSTANT);
    }

    private List<StagePlan.Part> parts(int stage) {
        return stages.parts().stream()
                .filter(p -> p.stage() == stage)
                .map(p -> new StagePlan.Part(p.first(), p.last()))
                .toList();
    }

    private double share(int stage) {
        return stages.parts().stream()
                .filter(p -> p.stage() == stage)
                .mapToDouble(Stages.Part::share)
                .sum();
    }
}
