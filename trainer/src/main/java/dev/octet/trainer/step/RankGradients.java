package dev.octet.trainer.step;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankGradient;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.reduction.ReductionReport;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Ranks that train together, simulated in one process: of N consecutive micro-batches each is one rank's. The average of their gradients is put where the sum of all micro-batches would be.
 *
 * <p>Between two of a step's rounds MS-AMP's ranks keep E4M3 gradients, and under DDP the average: see {@link RankGradient#rounded}.
 */
final class RankGradients implements AutoCloseable {
    private final RankSettings settings;
    private final RankPrograms programs;
    private final PersistentBuffers memory;
    private final List<Executable> collect;
    private final Executable average;

    RankGradients(RankSettings settings, RankPrograms programs, PersistentBuffers memory) {
        this.settings = settings;
        this.programs = programs;
        this.memory = memory;
        collect = programs.collect().stream().map(memory::load).toList();
        average = memory.load(programs.average());
    }

    /**
     * Takes the gradients of the micro-batch that was just computed, and leaves zeros, or after the last one the average.
     *
     * @param microBatch its number in the step, from 0
     */
    void take(int microBatch, boolean isLast) {
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
            RankGradient.rounded(settings.rule(), all);
            for (int r = 0; r < settings.ranks(); r++) {
                memory.writeGradient(RankPrograms.ofRank(name, r), all.get(r));
            }
        }
    }

    /** How the averages of the last step fitted E4M3. */
    ReductionReport report() {
        long saturated = 0;
        long elements = 0;
        String worst = "";
        double worstShare = 0;
        float smallest = Float.POSITIVE_INFINITY;
        float largest = 0;
        for (Map.Entry<String, RankPrograms.Coded> e : programs.coded().entrySet()) {
            long count = (long) memory.readNumber(e.getValue().saturated());
            double share = (double) count / Math.max(1, e.getValue().elements());
            saturated += count;
            elements += e.getValue().elements();
            if (share > worstShare) {
                worst = e.getKey();
                worstShare = share;
            }
            float preScale = (float) memory.readNumber(e.getValue().preScale());
            smallest = Math.min(smallest, preScale);
            largest = Math.max(largest, preScale);
        }
        return new ReductionReport(saturated, elements, worst, worstShare, smallest, largest);
    }

    @Override
    public void close() {
        collect.forEach(Executable::close);
        average.close();
    }
}
