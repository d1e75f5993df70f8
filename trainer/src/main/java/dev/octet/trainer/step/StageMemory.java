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

    private StagePlan.Stage stage(int stage) {
        Collectives none = Collectives.alone(); // nothing runs
        Map<String, Value> lasting = new HashMap<>();
        long temporary = 0;
        int inFlight = 0;
        for (int c = 0; c < order.chunks(); c++) {
            Program program = ActivationPlan.ofPart(
                            stages.program(training, stage, c, none), setup.activations(), casts)
                    .program();
            note(program, lasting);
            temporary += order.inFlight(stage, c) * arena(program);
            inFlight += order.inFlight(stage, c);
        }
        List<Program> besides =
                new ArrayList<>(List.of(stages.beforeUpdate(stage, none), stages.afterUpdate(stage, none)));
        if (setup.ranks().isOn()) {
            RankPrograms averaging = RankPrograms.ofOne(stages.gradients(stage), setup.ranks(), Set.of());
            besides.add(averaging.collect().getFirst());
            besides.add(averaging.average());
        }
        for (Program program : besides) {
            note(program, lasting);
            temporary += arena(program);
        }
        long weights = lasting.values().stream()
                .filter(v -> v.role() == ValueRole.PARAMETER)
                .mapToLong(v -> v.type().count())
                .sum();
        Program update = most(updates(stage, none), lasting);
        note(update, lasting);
        return new StagePlan.Stage(
                parts(stage), share(stage), weights, inFlight, bytes(lasting), temporary + arena(update));
    }

    /** The update of a stage, on each data-parallel rank where these share it out. */
    private List<Program> updates(int stage, Collectives none) {
        UpdateProgram own = stages.update(stage, none);
        int ranks = setup.ranks().ranks();
        if (ranks == 1 || !setup.shards().isOn()) {
            return List.of(own.program());
        }
        Sharding sharding = new Sharding(stages.owned(stage), own, setup.states(), setup.shards(), ranks);
        List<Program> all = new ArrayList<>();
        for (int r = 0; r < ranks; r++) {
            all.add(sharding.update(r, none).program());
        }
        return all;
    }

    private static Program most(List<Program> updates, Map<String, Value> besides) {
        Program most = updates.getFirst();
        long bytes = -1;
        for (Program update : updates) {
            Map<String, Value> all = new HashMap<>(besides);
            note(update, all);
            if (bytes(all) > bytes) {
                bytes = bytes(all);
                most = update;
            }
        }
        return most;
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
