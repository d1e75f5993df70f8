package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * When checkpoints are written and how many stay. The last step always gets one.
 *
 * @param every steps between two; 0 for none before the end
 * @param keep how many stay, at least 1
 */
public record CheckpointConfig(long every, int keep) {
    static CheckpointConfig read(Section s) {
        return new CheckpointConfig(
                s.whole("every", 0, 0, Long.MAX_VALUE), (int) s.whole("keep", 3, 1, Integer.MAX_VALUE));
    }
}
