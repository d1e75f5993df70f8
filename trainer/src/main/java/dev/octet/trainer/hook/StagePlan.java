package dev.octet.trainer.hook;

import java.util.List;

/**
 * What each stage of a pipeline has and does, whether or not the ranks are there.
 *
 * @param chunks of each stage
 * @param microBatches of a step that go through a pipeline
 * @param stages in their order
 */
public record StagePlan(int chunks, int microBatches, List<Stage> stages) {
    public StagePlan {
        stages = List.copyOf(stages);
    }

    /**
     * One stage, of data-parallel ranks the one that keeps most.
     *
     * @param parts its chunks of the model
     * @param share of the operations and bytes of a micro-batch, from 0 to 1
     * @param weights elements of the weights that it has
     * @param inFlight chunks of micro-batches that have gone forward and not yet backward, at most
     * @param lastingBytes of weights, gradients, moments and other state
     * @param temporaryBytes peak within a step, planned for the shapes of the first batch; messages between ranks are not in it
     */
    public record Stage(
            List<Part> parts, double share, long weights, int inFlight, long lastingBytes, long temporaryBytes) {
        public Stage {
            parts = List.copyOf(parts);
        }

        /** Both. */
        public long bytes() {
            return lastingBytes + temporaryBytes;
        }
    }

    /**
     * Nodes that are computed together.
     *
     * @param first of them
     * @param last of them
     */
    public record Part(String first, String last) {}
}
