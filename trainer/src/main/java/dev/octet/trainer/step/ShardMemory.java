package dev.octet.trainer.step;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.shard.ZeroStage;
import dev.octet.trainer.state.StateForms;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What ranks keep in memory with each stage of sharing out, from the programs that they would run.
 *
 * @param training not cut
 * @param update not cut
 * @param averaging what a rank runs besides, where it has all gradients
 */
record ShardMemory(
        Program training, UpdateProgram update, RankPrograms averaging, StateForms states, ShardSettings settings) {
    /** @param ranks how many there are */
    ZeroPlan plan(int ranks) {
        List<ZeroPlan.Stage> stages = new ArrayList<>();
        for (ZeroStage stage : ZeroStage.values()) {
            stages.add(stage(stage, ranks));
        }
        return new ZeroPlan(ranks, settings.zero().number(), stages);
    }

    /** Of the rank that keeps most from step to step. */
    private ZeroPlan.Stage stage(ZeroStage stage, int ranks) {
        ShardSettings of = settings.with(stage);
        Sharding sharding = new Sharding(training, update, states, of, ranks);
        List<Program> most = List.of();
        for (int r = 0; r < ranks; r++) {
            List<Program> programs = programs(stage, sharding, r);
            if (most.isEmpty() || lasting(programs) > lasting(most)) {
                most = programs;
            }
        }
        long temporary = most.stream()
                .mapToLong(p -> MemoryPlan.of(p).arenaBytes() + MemoryPlan.bytes(p, ValueRole.CONSTANT))
                .sum();
        return new ZeroPlan.Stage(stage.number(), lasting(most), temporary);
    }

    private List<Program> programs(ZeroStage stage, Sharding sharding, int rank) {
        if (stage == ZeroStage.NONE) {
            return List.of(training, update.program(), averaging.collect().getFirst(), averaging.average());
        }
        Collectives none = Collectives.alone(); // nothing runs
        Program own = sharding.program(training, rank, none);
        Program updating = sharding.update(rank, none).program();
        return stage.cutsGradients()
                ? List.of(own, updating)
                : List.of(own, updating, averaging.collect().getFirst(), averaging.average());
    }

    private static long lasting(List<Program> programs) {
        Map<String, Long> bytes = new HashMap<>();
        programs.forEach(
                p -> p.lasting().forEach(v -> bytes.put(v.name(), v.type().byteSize())));
        return bytes.values().stream().mapToLong(Long::longValue).sum();
    }
}
