package dev.octet.trainer.step;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankGradient;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.reduction.ReductionReport;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Gradients of ranks that one process plays: of N consecutive micro-batches each is one rank's. */
final class SimulatedGradients implements RankGradients {
    private final RankSettings settings;
    private final RankPrograms programs;
    private final PersistentBuffers memory;
    private final List<Executable> collect;
    private final Executable average;

    SimulatedGradients(RankSettings settings, RankPrograms programs, PersistentBuffers memory) {
        this.settings = settings;
        this.programs = programs;
        this.memory = memory;
        collect = programs.collect().stream().map(memory::load).toList();
        average = memory.load(programs.average());
    }

    @Override
    public void take(int microBatch, boolean isLast) {
        int rank = microBatch % settings.ranks();
        collect.get(rank).run(Phase.UPDATE);
        programs.parameters().forEach(memory::zeroGradient);
        if (isLast) {
            average.run(Phase.UPDATE);
        } else if (rank == settings.ranks() - 1) {
            between();
        }
    }

    private void between() {
        if (settings.reduction() == GradientReduction.DDP) {
            average.run(Phase.UPDATE);
            for (String name : programs.parameters()) {
                float[] mean = memory.readGradient(name, 1);
                for (int r = 0; r < settings.ranks(); r++) {
                    memory.writeGradient(RankPrograms.ofRank(name, r), mean);
                }
                memory.zeroGradient(name);
            }
            return;
        }
        for (String name : programs.coded().keySet()) {
            List<float[]> all = new ArrayList<>();
            for (int r = 0; r < settings.ranks(); r++) {
                all.add(memory.readGradient(RankPrograms.ofRank(name, r), 1));
            }
            float largest = RankGradient.amax(all);
            all.forEach(g -> RankGradient.round(settings.rule(), g, largest));
            for (int r = 0; r < settings.ranks(); r++) {
                memory.writeGradient(RankPrograms.ofRank(name, r), all.get(r));
            }
        }
    }

    @Override
    public Optional<ReductionReport> report() {
        return programs.report(memory);
    }

    @Override
    public void close() {
        collect.forEach(Executable::close);
        average.close();
    }
}
