package dev.octet.pipeline.history;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * A run as a page draws it.
 *
 * @param name short name of its folder, distinct among the runs of a page
 * @param folder as the caller gave it
 * @param model it was started with
 * @param precision in which it computes
 * @param device of the last session
 * @param octet version of the last session
 * @param started when the first session was, as ISO 8601
 * @param settings of the run by dotted key
 * @param state whether it goes on
 * @param steps how many it is meant to do; 0 when the folder does not say
 * @param step the last that it did; 0 before the first
 * @param lastLoss of that step; null when not known or not finite
 * @param smoothSpan steps to each side that {@code smooth} is a mean of
 * @param smooth mean of the losses around each step
 * @param speedUnit {@code tokens} or {@code samples} a second
 * @param curves by key of {@code metrics.jsonl}, those that every run has
 * @param evaluations by key, those that begin with {@code eval_}
 * @param more other numbers of {@code metrics.jsonl}, and statistics of {@code debug.jsonl}, by name
 * @param moreLeft names of further numbers
 * @param skipped steps whose gradients were not applied
 * @param notFinite steps whose loss was not finite
 * @param events by step
 * @param eventsLeft how many events of a kind there were after those
 * @param fp8 shares of clipped and underflowed elements
 * @param scales of the worst tensors
 * @param notes what the reader should know of the files
 */
public record RunHistory(
        String name,
        String folder,
        String model,
        String precision,
        String device,
        String octet,
        String started,
        Map<String, String> settings,
        State state,
        long steps,
        long step,
        @Nullable Double lastLoss,
        long smoothSpan,
        Series smooth,
        String speedUnit,
        Map<String, Series> curves,
        Map<String, Series> evaluations,
        Map<String, Series> more,
        int moreLeft,
        long skipped,
        long notFinite,
        List<RunEvent> events,
        Map<RunEvent.Kind, Long> eventsLeft,
        Fp8Map fp8,
        List<ScaleHistory> scales,
        List<String> notes) {
    /** Whether a run goes on. */
    public enum State {
        /** A process writes to its folder. */
        RUNNING,
        /** It did all its steps. */
        COMPLETE,
        /** It ended before, and can be resumed from its last checkpoint. */
        STOPPED
    }

    public RunHistory {
        settings = Collections.unmodifiableMap(new TreeMap<>(settings)); // in the same order in every page
        curves = Collections.unmodifiableMap(new TreeMap<>(curves));
        evaluations = Collections.unmodifiableMap(new TreeMap<>(evaluations));
        more = Collections.unmodifiableMap(new TreeMap<>(more));
        eventsLeft = Collections.unmodifiableMap(new TreeMap<>(eventsLeft));
        events = List.copyOf(events);
        scales = List.copyOf(scales);
        notes = List.copyOf(notes);
    }
}
