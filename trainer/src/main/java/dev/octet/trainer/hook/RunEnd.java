package dev.octet.trainer.hook;

/**
 * How a run ended.
 *
 * @param step last step done
 * @param message what happened, one line; empty when all steps were done
 */
public record RunEnd(Reason reason, long step, String message, Totals totals) {
    /** Why. */
    public enum Reason {
        /** All steps were done. */
        COMPLETED,
        /** It was asked to stop; it can go on. */
        INTERRUPTED,
        /** The loss ran away. */
        DIVERGED,
        /** A loss or gradient was not finite and the policy says stop. */
        NON_FINITE,
        /** An error. */
        FAILED
    }

    /**
     * Sums over the steps of this process.
     *
     * @param bestLoss smallest loss of a step; NaN when there was none
     * @param lastLoss of the last step; NaN when there was none
     * @param computeSeconds in programs
     * @param dataSeconds reading samples
     * @param checkpointSeconds writing checkpoints
     * @param evaluationSeconds evaluating
     */
    public record Totals(
            long steps,
            long skipped,
            double bestLoss,
            double lastLoss,
            double computeSeconds,
            double dataSeconds,
            double checkpointSeconds,
            double evaluationSeconds) {}
}
