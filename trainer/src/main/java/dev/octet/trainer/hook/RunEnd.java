package dev.octet.trainer.hook;

/**
 * How a run ended.
 *
 * @param step last completed step
 * @param message one line; empty when all steps were completed
 */
public record RunEnd(Reason reason, long step, String message, Totals totals) {
    /** Why the run ended. */
    public enum Reason {
        /** All steps were completed. */
        COMPLETED,
        /** A request ended the run; it can be resumed. */
        INTERRUPTED,
        /** The loss diverged. */
        DIVERGED,
        /** A loss or gradient was not finite and the policy is to stop. */
        NON_FINITE,
        /** An exception ended the run. */
        FAILED
    }

    /**
     * Totals over the steps of this process.
     *
     * @param bestLoss smallest loss of a step; NaN before the first step
     * @param lastLoss loss of the last step; NaN before the first step
     * @param computeSeconds time in programs
     * @param dataSeconds time reading samples
     * @param checkpointSeconds time writing checkpoints
     * @param evaluationSeconds time evaluating
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
