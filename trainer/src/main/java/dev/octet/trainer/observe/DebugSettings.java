package dev.octet.trainer.observe;

import java.util.List;

/**
 * What {@code debug:} asks for.
 *
 * @param sections a layer is in one of them at most
 * @param logs whether to write Transformer Engine's log files, too
 * @param parity whether numbers are as Transformer Engine's code finds and prints them where that is odd
 * @param firstIteration the iteration of the first step, Transformer Engine's {@code init_training_step}
 * @param notes for the user, on what is read and has no effect
 */
public record DebugSettings(
        List<DebugSection> sections, boolean logs, boolean parity, long firstIteration, List<String> notes) {
    /** Nothing. */
    public static final DebugSettings NONE = new DebugSettings(List.of(), false, false, 1, List.of());

    public DebugSettings {
        sections = List.copyOf(sections);
        notes = List.copyOf(notes);
    }

    /** The iteration of a step; steps count from 1. */
    public long iteration(long step) {
        return firstIteration + step - 1;
    }

    /** Whether any section reads tensors. */
    public boolean reads() {
        return sections.stream().flatMap(s -> s.features().stream()).anyMatch(Feature.Reading.class::isInstance);
    }
}
