package dev.octet.trainer.observe;

import java.util.List;

/**
 * In which iterations a feature works: those that {@code freq} divides and that lie within one of the ranges.
 *
 * @param freq at least 1
 * @param ranges both ends belong to them, as Transformer Engine has it (the features of nvidia-dlfw-inspect itself leave out the end)
 */
public record StepGate(long freq, List<Range> ranges) {
    /** Every iteration. */
    public static final StepGate ALWAYS = new StepGate(1, List.of(new Range(0, Long.MAX_VALUE)));

    /** Iterations from {@code first} to {@code last}, which belongs to them. */
    public record Range(long first, long last) {
        public Range {
            if (first > last) {
                throw new IllegalArgumentException("iterations from " + first + " to " + last + " are none");
            }
        }
    }

    public StepGate {
        if (freq < 1) {
            throw new IllegalArgumentException("freq " + freq + " is below 1");
        }
        ranges = List.copyOf(ranges);
    }

    /** Whether the feature works in an iteration. */
    public boolean opens(long iteration) {
        return iteration % freq == 0 && ranges.stream().anyMatch(r -> r.first() <= iteration && iteration <= r.last());
    }
}
