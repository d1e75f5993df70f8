package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * When to write checkpoints and how many to keep. The last step always gets one.
 *
 * @param every steps between two checkpoints; 0 for none before the end
 * @param keep number of checkpoints to keep, at least 1
 */
public record CheckpointConfig(long every, int keep) {
    static CheckpointConfig read(Section s) {
        return new CheckpointConfig(
                s.whole("every", 0, 0, Long.MAX_VALUE), (int) s.whole("keep", 3, 1, Integer.MAX_VALUE));
    }
}
