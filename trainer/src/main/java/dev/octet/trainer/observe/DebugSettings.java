package dev.octet.trainer.observe;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * What {@code debug:} asks for.
 *
 * @param sections a layer is in one of them at most
 * @param file whose sections are among them; empty without one
 * @param logs whether to write Transformer Engine's log files, too
 * @param parity whether numbers are as Transformer Engine's code finds and prints them where that is odd
 * @param firstIteration the iteration of the first step, Transformer Engine's {@code init_training_step}
 * @param notes for the user, on what is read and has no effect
 */
public record DebugSettings(
        List<DebugSection> sections,
        Optional<Path> file,
        boolean logs,
        boolean parity,
        long firstIteration,
        List<String> notes) {
    /** What a copy of the file is called next to a copy of the configuration: it is read where the file is gone. */
    public static final String KEPT_FILE = "debug.yaml";

    /** Nothing. */
    public static final DebugSettings NONE = new DebugSettings(List.of(), Optional.empty(), false, false, 1, List.of());

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
