package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * All that a run will do, decided from headers and scales before any weight is read.
 *
 * @param goal what the checkpoint becomes
 * @param fingerprint what distinguishes this run from others of the same checkpoint, by name: recipe, layout, choices
 * @param shards the files of tensors to be written, in order
 * @param decisions what becomes of each matrix, in the order of the checkpoint
 * @param config the target's {@code config.json}; empty when the source has none
 * @param files other JSON files to lie beside it, by name
 * @param notes what a user should know
 */
public record CheckpointPlan(
        ConversionRequest goal,
        Map<String, String> fingerprint,
        List<ShardPlan> shards,
        List<WeightDecision> decisions,
        Optional<ObjectNode> config,
        Map<String, ObjectNode> files,
        List<String> notes) {
    /** The same under the fingerprint of a request. */
    public CheckpointPlan withFingerprint(Map<String, String> newFingerprint) {
        return new CheckpointPlan(goal, newFingerprint, shards, decisions, config, files, notes);
    }

    /** Bytes read from the source. */
    public long sourceBytes() {
        return shards.stream().mapToLong(ShardPlan::sourceBytes).sum();
    }

    /** Bytes of the files of tensors written. */
    public long targetBytes() {
        return shards.stream().mapToLong(s -> s.header().fileBytes()).sum();
    }

    /** Number of steps of each kind of exactness among weights that are quantised in source or target. */
    public long count(Exactness exactness) {
        return shards.stream()
                .flatMap(s -> s.steps().stream())
                .filter(TensorStep::isOfWeight)
                .filter(s -> s.exactness() == exactness)
                .count();
    }
}
