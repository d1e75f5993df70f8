package dev.octet.trainer.config;

import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.ZeroStage;
import dev.octet.trainer.yaml.Section;

/**
 * The section {@code distributed}: how the processes of a run share out what it keeps. Changes no number, but for {@code reshape}.
 *
 * @param zero what is shared out
 * @param bucketSize bytes of gradients or weights that travel together
 * @param reshape whether a run may go on with another number of ranks, whose sums are added in another order
 */
public record DistributedConfig(ZeroStage zero, long bucketSize, boolean reshape) {
    /** Nothing is shared out. */
    public static final DistributedConfig NONE =
            new DistributedConfig(ZeroStage.NONE, ShardSettings.BUCKET_BYTES, false);

    private static final String BUCKET_SIZE = "bucket_size";

    static DistributedConfig read(Section s) {
        return new DistributedConfig(
                ZeroStage.of((int) s.whole("zero", 0, 0, ZeroStage.values().length - 1)),
                s.has(BUCKET_SIZE) ? ByteSize.read(s, BUCKET_SIZE) : ShardSettings.BUCKET_BYTES,
                s.flag("reshape", false));
    }

    /**
     * What a step is told.
     *
     * @param microBatches how many each rank computes in a step
     * @param adapts whether it trains an adapter, whose file has all its weights
     */
    public ShardSettings shards(int microBatches, boolean adapts) {
        return new ShardSettings(zero, bucketSize, microBatches, adapts);
    }
}
