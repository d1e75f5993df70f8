package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.shard.ZeroStage;
import dev.octet.trainer.yaml.Section;

/**
 * The section {@code distributed}: how the processes of a run are arranged, and share out what it keeps.
 *
 * @param data how many groups compute different samples; 0 for as many as there are ranks for
 * @param tensor ranks that share each layer
 * @param pipeline stages that layers are dealt out to
 * @param chunks groups of layers of a stage
 * @param sequenceParallel whether tensor-parallel ranks also share out what lies between their products, by positions
 * @param zero what is shared out
 * @param bucketSize bytes of gradients or weights that travel together
 * @param reshape whether a run may go on with another number of ranks or another mesh, whose sums are added in another order
 */
public record DistributedConfig(
        int data,
        int tensor,
        int pipeline,
        int chunks,
        boolean sequenceParallel,
        ZeroStage zero,
        long bucketSize,
        boolean reshape) {
    /** Nothing is shared out but samples. */
    public static final DistributedConfig NONE =
            new DistributedConfig(0, 1, 1, 1, false, ZeroStage.NONE, ShardSettings.BUCKET_BYTES, false);

    /** As many as a mesh may have in one direction. */
    private static final int MOST = 1024;

    private static final String BUCKET_SIZE = "bucket_size";
    private static final String SEQUENCE = "sequence_parallel";
    private static final String CHUNKS = "chunks";

    static DistributedConfig read(Section s) {
        DistributedConfig config = new DistributedConfig(
                s.has("data") ? (int) s.requiredWhole("data", 1, MOST) : 0,
                (int) s.whole("tensor", 1, 1, MOST),
                (int) s.whole("pipeline", 1, 1, MOST),
                (int) s.whole(CHUNKS, 1, 1, MOST),
                s.flag(SEQUENCE, false),
                ZeroStage.of((int) s.whole("zero", 0, 0, ZeroStage.values().length - 1)),
                s.has(BUCKET_SIZE) ? ByteSize.read(s, BUCKET_SIZE) : ShardSettings.BUCKET_BYTES,
                s.flag("reshape", false));
        if (config.sequenceParallel && config.tensor == 1) {
            throw s.error(
                    SEQUENCE,
                    "tensor-parallel ranks share out a sequence, and there are none",
                    "add tensor: 2, or leave " + SEQUENCE + " out");
        }
        if (config.chunks > 1 && config.pipeline == 1) {
            throw s.error(
                    CHUNKS,
                    "stages have chunks, and there is one stage",
                    "add pipeline: 2, or leave " + CHUNKS + " out");
        }
        return config;
    }

    /** Whether ranks have different parts of the model. */
    public boolean cutsModel() {
        return tensor > 1 || pipeline > 1;
    }

    /**
     * How so many processes are arranged.
     *
     * @throws InvalidOptionException when the numbers do not make up that of the processes
     */
    public Mesh mesh(int processes) {
        long each = (long) tensor * pipeline;
        long groups = data == 0 ? Math.max(1, processes / each) : data;
        if (groups * each != processes) {
            String asked = (data == 0 ? "" : "data: " + data + ", ") + "tensor: " + tensor + ", pipeline: " + pipeline;
            long fit = (data == 0 ? Math.ceilDiv(processes, each) : data) * each;
            throw new InvalidOptionException(
                    "a mesh of " + (data == 0 ? "groups of " + each : String.valueOf(groups * each))
                            + " ranks cannot be" + " made of " + processes
                            + (processes == 1 ? " process" : " processes"),
                    "distributed: {" + asked + "}",
                    "start them with mpirun -n " + fit + ", or change the numbers; without data there are as many"
                            + " groups as fit");
        }
        return new Mesh((int) groups, tensor, pipeline, chunks, zero.number());
    }

    /**
     * The groups of a rank. One process alone is the first rank of a model that ranks share, in a plan.
     *
     * @throws InvalidOptionException as in {@link #mesh}
     */
    public RankGroups groups(Collectives world) {
        return world.isAlone() && cutsModel()
                ? RankGroups.planned(new Mesh(1, tensor, pipeline, chunks, zero.number()))
                : RankGroups.of(mesh(world.size()), world);
    }

    /**
     * What a step is told.
     *
     * @param microBatches how many each rank computes in a step
     * @param adapts whether it trains an adapter, whose file has all its weights
     */
    public ShardSettings shards(int microBatches, boolean adapts) {
        return new ShardSettings(zero, bucketSize, microBatches, adapts, sequenceParallel, false);
    }
}
