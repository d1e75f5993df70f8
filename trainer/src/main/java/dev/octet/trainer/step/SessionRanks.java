package dev.octet.trainer.step;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.collective.RankGroups;
import dev.octet.trainer.shard.CallOrder;
import dev.octet.trainer.shard.ShardSettings;

/**
 * The ranks of a session, and what each of them keeps of what there is.
 *
 * @param groups all ranks
 * @param shards what they share out
 */
record SessionRanks(RankGroups groups, ShardSettings shards) {
    Collectives world() {
        return groups.world();
    }

    /** The ranks that compute other samples with the same weights. */
    Collectives data() {
        return groups.data();
    }

    /** The ranks that have other parts of the same weights. */
    Collectives tensor() {
        return groups.tensor();
    }

    /** The stages that compute the same samples. */
    Collectives pipeline() {
        return groups.pipeline();
    }

    Mesh mesh() {
        return groups.mesh();
    }

    /** Whether this rank computes a part of the model. */
    boolean isStaged() {
        return mesh().pipeline() > 1;
    }

    /** The ranks that plan together what backward computes again: those that share layers, if they are there. */
    Collectives planning() {
        return world().size() < mesh().size() ? Collectives.alone() : tensor();
    }

    /** Whether this rank keeps a share of what there is. One process that plays all ranks keeps all. */
    boolean isSharded() {
        return !data().isAlone() && shards.isOn();
    }

    /** Whether it has only its own averaged gradients. */
    boolean cutsGradients() {
        return isSharded() && shards.zero().cutsGradients();
    }

    /** Whether it has only its own weights between their uses. */
    boolean cutsWeights() {
        return isSharded() && shards.zero().cutsWeights();
    }

    /** How many micro-batches all ranks have where this one has so many. */
    int inStep(int own) {
        return own * data().size();
    }

    /** In which order stages compute so many micro-batches; with one stage each goes forward and backward before the next. */
    CallOrder order(int microBatches) {
        return new CallOrder(mesh().pipeline(), mesh().chunks(), microBatches);
    }
}
