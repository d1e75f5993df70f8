package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The plan of a run, made from headers and scales before any weight is read.
 *
 * @param goal what the checkpoint becomes
 * @param fingerprint what distinguishes this run from others with the same source, by name: recipe, layout, choices
 * @param shards the tensor files to write, in order
 * @param decisions the decision on each matrix, in the order of the checkpoint
 * @param config the target's {@code config.json}; empty when the source has none
 * @param files other JSON files to write next to it, by name
 * @param notes notes for the user
 * @param merged what adapters change
 * @param rounding how weights are rounded
 */
public record CheckpointPlan(
        ConversionRequest goal,
        Map<String, String> fingerprint,
        List<ShardPlan> shards,
        List<WeightDecision> decisions,
        Optional<ObjectNode> config,
        Map<String, ObjectNode> files,
        List<String> notes,
        MergedWeights merged,
        WeightRounding rounding) {
    /** The same under the fingerprint of a request. */
    public CheckpointPlan withFingerprint(Map<String, String> newFingerprint) {
        return new CheckpointPlan(goal, newFingerprint, shards, decisions, config, files, notes, merged, rounding);
    }

    /** Bytes read from the source. */
    public long sourceBytes() {
        return shards.stream().mapToLong(ShardPlan::sourceBytes).sum();
    }

    /** Bytes of the tensor files to write. */
    public long targetBytes() {
        return shards.stream().mapToLong(s -> s.header().fileBytes()).sum();
    }

    /** Number of steps of this exactness, among weights that are quantised in source or target. */
    public long count(Exactness exactness) {
        return shards.stream()
                .flatMap(s -> s.steps().stream())
                .filter(TensorStep::isOfWeight)
                .filter(s -> s.exactness() == exactness)
                .count();
    }
}
