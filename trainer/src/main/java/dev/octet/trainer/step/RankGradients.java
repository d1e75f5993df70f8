package dev.octet.trainer.step;

import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.reduction.ReductionReport;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Gradients of ranks that train together. The average of the ranks is put where the sum of all micro-batches would be.
 *
 * <p>Between two of a step's rounds MS-AMP's ranks keep E4M3 gradients, and under DDP the average: see {@link
 * dev.octet.trainer.reduction.RankGradient#round}.
 */
interface RankGradients extends AutoCloseable {
    /**
     * Watches backward of a step's only micro-batch of this process, to exchange gradients while the others are computed. Until {@link #await} returns nothing else is exchanged.
     *
     * @return null where they are exchanged afterwards
     */
    default @Nullable StepObserver during(Program training) {
        return null;
    }

    /** Returns when what was begun in backward is done. */
    default void await() {}

    /**
     * Takes the gradients of the micro-batch that was just computed, and leaves zeros, or after the last one the average.
     *
     * @param microBatch its number among those of this process in the step, from 0
     */
    void take(int microBatch, boolean isLast);

    /** How the averages of the last step fitted E4M3; empty where all are in F32. */
    Optional<ReductionReport> report();

    @Override
    void close();
}
