package dev.octet.trainer.shard;

/**
 * How ranks share out what a run keeps.
 *
 * @param zero what is shared out
 * @param bucketBytes of gradients, or of weights, that travel together; a larger tensor travels alone
 * @param microBatches how many each rank computes in a step
 * @param keepsTrained whether all ranks keep the weights that are trained, as those of an adapter: they are few
 * @param sequences whether ranks that share layers share out the positions of samples between them
 * @param showsWeights whether the Linears of a training program have their weights in F32 at hand on all ranks, where products read codes alone, for what looks at them
 */
public record ShardSettings(
        ZeroStage zero,
        long bucketBytes,
        int microBatches,
        boolean keepsTrained,
        boolean sequences,
        boolean showsWeights) {
    /** As many bytes as a bucket of torch's DistributedDataParallel. */
    public static final long BUCKET_BYTES = 25 << 20;

    /** Nothing is shared out. */
    public static final ShardSettings NONE = new ShardSettings(ZeroStage.NONE, BUCKET_BYTES, 1, false, false, false);

    public ShardSettings {
        if (bucketBytes < 1 || microBatches < 1) {
            throw new IllegalArgumentException(microBatches + " micro-batches, buckets of " + bucketBytes + " bytes");
        }
    }

    /** The same with another stage. */
    public ShardSettings with(ZeroStage stage) {
        return new ShardSettings(stage, bucketBytes, microBatches, keepsTrained, sequences, showsWeights);
    }

    /** The same with weights in F32 at hand. */
    public ShardSettings showingWeights() {
        return new ShardSettings(zero, bucketBytes, microBatches, keepsTrained, sequences, true);
    }

    /** Whether data-parallel ranks keep different things. */
    public boolean isOn() {
        return zero != ZeroStage.NONE;
    }
}
