package dev.octet.converter.checkpoint;

import dev.octet.formats.safetensors.SafetensorsHeader;
import java.util.List;

/**
 * One file to be written.
 *
 * @param name file name in the target folder
 * @param steps what goes into it
 * @param header its header, with every tensor that the steps write
 */
public record ShardPlan(String name, List<TensorStep> steps, SafetensorsHeader header) {
    /** Bytes read for it. */
    public long sourceBytes() {
        return steps.stream().mapToLong(TensorStep::sourceBytes).sum();
    }
}
