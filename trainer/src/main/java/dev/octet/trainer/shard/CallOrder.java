package dev.octet.trainer.shard;

import java.util.ArrayList;
import java.util.List;

/**
 * The order in which the stages of a pipeline compute micro-batches: one forward, one backward (1F1B), or interleaved where a stage has several chunks of layers (Narayanan et
 * al., arXiv:2104.04473, section 2.2). Each chunk computes forward, and backward, of micro-batches in their order.
 *
 * @param stages how many
 * @param chunks of each stage; chunk c of stage s is part {@code c * stages + s} of the model
 * @param microBatches of a step; with several chunks divisible by the stages
 */
public record CallOrder(int stages, int chunks, int microBatches) {
    /**
     * One chunk of one micro-batch, forward or backward.
     *
     * @param microBatch from 0
     * @param chunk of the stage, from 0
     */
    public record Call(boolean backward, int microBatch, int chunk) {}

    public CallOrder {
        if (stages < 1 || chunks < 1 || microBatches < 1) {
            throw new IllegalArgumentException(
                    stages + " stages, " + chunks + " chunks, " + microBatches + " micro-batches");
        }
        if (chunks > 1 && microBatches % stages != 0) {
            throw new IllegalArgumentException(microBatches + " micro-batches, " + stages + " stages, interleaved");
        }
    }

    /** What a stage computes, one call after another. */
    public List<Call> of(int stage) {
        int all = microBatches * chunks;
        int warmUp = chunks == 1
                ? Math.min(all, stages - stage - 1)
                : Math.min(all, 2 * (stages - stage - 1) + (chunks - 1) * stages);
        List<Call> order = new ArrayList<>();
        for (int k = 0; k < warmUp; k++) {
            order.add(call(k, false));
        }
        for (int k = warmUp; k < all; k++) {
            order.add(call(k, false));
            order.add(call(k - warmUp, true));
        }
        for (int k = all - warmUp; k < all; k++) {
            order.add(call(k, true));
        }
        return order;
    }

    /** Call {@code k} of a kind: groups of as many micro-batches as there are stages go through all chunks, in backward from the last. */
    private Call call(int k, boolean backward) {
        int group = k / (stages * chunks);
        int within = k % (stages * chunks);
        int chunk = within / stages;
        int microBatch = chunks == 1 ? k : group * stages + within % stages;
        return new Call(backward, microBatch, backward ? chunks - 1 - chunk : chunk);
    }

    /** How many micro-batches a chunk has computed forward and not yet backward, at most. */
    public int inFlight(int stage, int chunk) {
        int now = 0;
        int most = 0;
        for (Call call : of(stage)) {
            if (call.chunk() == chunk) {
                now += call.backward() ? -1 : 1;
                most = Math.max(most, now);
            }
        }
        return most;
    }
}
