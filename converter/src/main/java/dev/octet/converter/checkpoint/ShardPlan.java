package dev.octet.converter.checkpoint;

import dev.octet.formats.safetensors.SafetensorsHeader;
import java.util.List;

/**
 * The plan of one tensor file.
 *
 * @param name file name in the target folder
 * @param steps the steps that write its tensors
 * @param header its header, with every tensor that the steps write
 */
public record ShardPlan(String name, List<TensorStep> steps, SafetensorsHeader header) {
    /** Bytes that its steps read. */
    public long sourceBytes() {
        return steps.stream().mapToLong(TensorStep::sourceBytes).sum();
    }
}
