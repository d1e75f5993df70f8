package dev.octet.converter.checkpoint;

import java.io.Serializable;
import java.util.List;

/**
 * One tensor file that was written apart from the others of its plan.
 *
 * @param name file name in the target folder
 * @param sourceBytes bytes read for its tensors
 * @param bytes size of the file
 * @param sharedScales what sharing scales cost the groups of fused weights that the file has a part of
 * @param merges what is left of adapters in its weights
 * @param rounded the errors of its weights whose rounding was compensated
 */
public record WrittenShard(
        String name,
        long sourceBytes,
        long bytes,
        List<SharedScale> sharedScales,
        List<MergeMeasure> merges,
        List<RoundedError> rounded)
        implements Serializable {
    public WrittenShard {
        sharedScales = List.copyOf(sharedScales);
        merges = List.copyOf(merges);
        rounded = List.copyOf(rounded);
    }
}
