package dev.octet.trainer.hook;

import java.util.List;

/**
 * What each stage of sharing out would have a rank keep in memory, of the ranks the one that keeps most.
 *
 * @param ranks how many
 * @param zero number of the stage of the run
 * @param stages all, by number
 */
public record ZeroPlan(int ranks, int zero, List<Stage> stages) {
    /**
     * One stage.
     *
     * @param zero its number
     * @param lastingBytes of weights, gradients, moments and other state
     * @param temporaryBytes peak within a step, planned for the shapes of the first batch; messages between ranks are not in it
     */
    public record Stage(int zero, long lastingBytes, long temporaryBytes) {
        /** Both. */
        public long bytes() {
            return lastingBytes + temporaryBytes;
        }
    }

    public ZeroPlan {
        stages = List.copyOf(stages);
    }
}
