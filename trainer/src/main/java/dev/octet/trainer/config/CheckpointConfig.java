package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * When to write checkpoints and how many to keep. The last step always gets one.
 *
 * @param every steps between two checkpoints; 0 for none because of their number
 * @param minutes longest time between two checkpoints; 0 for none because of the time
 * @param keep number of checkpoints to keep, at least 1; the newest is one of them
 */
public record CheckpointConfig(long every, long minutes, int keep) {
    private static final long USUAL_STEPS = 500;
    private static final long USUAL_MINUTES = 30;

    static CheckpointConfig read(Section s) {
        // whoever says how many steps means just these
        long usualMinutes = s.has("every") ? 0 : USUAL_MINUTES;
        return new CheckpointConfig(
                s.whole("every", USUAL_STEPS, 0, Long.MAX_VALUE),
                s.whole("minutes", usualMinutes, 0, Integer.MAX_VALUE),
                (int) s.whole("keep", 3, 1, Integer.MAX_VALUE));
    }
}
