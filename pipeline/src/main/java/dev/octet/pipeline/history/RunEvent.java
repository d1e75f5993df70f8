package dev.octet.pipeline.history;

import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;

/**
 * Something that happened in a run.
 *
 * @param step when
 * @param last the step that it lasted to; {@code step} for a single one
 * @param kind of what kind
 * @param text what, as a sentence without its full stop
 * @param more what else the file says, by its keys; empty for what Octet writes
 */
public record RunEvent(long step, long last, Kind kind, String text, Map<String, String> more) {
    /** Kinds of events, in the order of the page. */
    public enum Kind {
        /** A session began or went on. */
        SESSION,
        /** A checkpoint that the folder holds. */
        CHECKPOINT,
        /** A loss or gradient norm that was not finite. */
        NOT_FINITE,
        /** A step whose gradients were not applied. */
        SKIPPED,
        /** Loss scaling changed. */
        LOSS_SCALE,
        /** A tensor did not fit its FP8 codes. */
        FP8,
        /** A decision of the run's guard. */
        GUARD
    }

    public RunEvent {
        more = Collections.unmodifiableMap(new TreeMap<>(more)); // in the same order in every page
    }

    /** One without further keys. */
    static RunEvent of(long step, Kind kind, String text) {
        return new RunEvent(step, step, kind, text, Map.of());
    }

    /** Whether another event is the same one a step later. */
    boolean goesOnWith(RunEvent next) {
        return kind == next.kind
                && text.equals(next.text)
                && more.isEmpty()
                && next.more.isEmpty()
                && (next.step == last || next.step == last + 1);
    }

    RunEvent until(long step) {
        return new RunEvent(this.step, step, kind, text, more);
    }
}
