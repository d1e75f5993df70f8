package dev.octet.cli;

import dev.octet.pipeline.TaskListener;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Shows on standard error how far long work is. Not for use by several threads at once; closing ends what is on screen. */
final class Progress implements TaskListener, AutoCloseable {
    private static final long BAR_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long PLAIN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(3);
    private static final long JSON_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    /** A rate over less time than this says nothing. */
    private static final double MEASURABLE_SECONDS = 0.05;

    /** The unit of work that only says how long it has taken so far. */
    private static final String SECONDS = "s";

    private static final int LONGEST_BAR = 30;
    private static final int SHORTEST_BAR = 8;

    private final ProgressStyle style;
    private final Screen screen;
    private final LiveLine live;

    private String task = "";
    private long startNanos;
    private long startDone;
    private long shownNanos;
    private long shownDone;

    Progress(ProgressStyle style, Screen screen) {
        this.style = style;
        this.screen = screen;
        this.live = new LiveLine(screen.err());
    }

    /** How far a task is. */
    private record State(long done, long total, String unit, double seconds, double rate) {
        double etaSeconds() {
            return rate > 0 && total > 0 ? (total - done) / rate : -1;
        }

        /** {@code 4.2 M of 252.7 M elements}. */
        String amount() {
            return total > 0 ? Quantity.share(done, total, unit) : Quantity.of(done, unit);
        }
    }

    /**
     * Tells how far a task is. A new task name ends the task before it.
     *
     * @param name what is being done, as "calibrating"
     * @param done steps done so far, 0 to {@code total}
     * @param total all steps; 0 or less when not known
     * @param unit what a step is, as "samples"
     */
    @Override
    public void progress(String name, long done, long total, String unit) {
        if (style == ProgressStyle.NONE) {
            return;
        }
        boolean starts = !name.equals(task);
        if (starts) {
            end();
            task = name;
            startNanos = System.nanoTime();
            startDone = done; // a continued run starts in the middle
            shownDone = -1;
        }
        long now = System.nanoTime();
        boolean ends = total > 0 && done >= total && done != shownDone;
        if (!starts && !ends && now - shownNanos < everyNanos()) {
            return;
        }
        shownNanos = now;
        shownDone = done;
        double seconds = (now - startNanos) / 1e9;
        double rate = done > startDone && seconds >= MEASURABLE_SECONDS ? (done - startDone) / seconds : 0;
        show(new State(done, total, unit, seconds, rate));
    }

    private long everyNanos() {
        return switch (style) {
            case BAR -> BAR_EVERY_NANOS;
            case PLAIN -> PLAIN_EVERY_NANOS;
            case JSON -> JSON_EVERY_NANOS;
            case NONE -> Long.MAX_VALUE;
        };
    }

    private void show(State state) {
        switch (style) {
            case BAR -> live.show(bar(state));
            case PLAIN -> screen.err().println(task + ": " + String.join(", ", facts(state)));
            case JSON -> screen.err().println(json(state));
            case NONE -> {}
        }
    }

    /** The last column stays free: some terminals would start a new line there. */
    private int lineWidth() {
        return Math.min(screen.errStyle().columns(), 120) - 1;
    }

    /** Task, bar and numbers in one line; the bar takes the room that is left, and what does not fit is left out from the end. */
    private String bar(State state) {
        List<String> facts = facts(state);
        int room = lineWidth();
        while (facts.size() > 1 && task.length() + 2 + String.join(", ", facts).length() > room) {
            facts.removeLast();
        }
        String text = String.join(", ", facts);
        int length = Math.min(LONGEST_BAR, room - task.length() - text.length() - 10);
        if (state.total() <= 0 || length < SHORTEST_BAR) {
            String line = task + "  " + text;
            return line.length() > room ? line.substring(0, room) : line;
        }
        double share = (double) state.done() / state.total();
        int full = (int) Math.floor(Math.clamp(share, 0, 1) * length);
        String head = full > 0 && full < length ? ">" : "";
        String drawn = "=".repeat(full - head.length()) + head + " ".repeat(length - full);
        return String.format(Locale.ROOT, "%s %3.0f%% [%s]  %s", task, Math.floor(100 * share), drawn, text);
    }

    private static List<String> facts(State state) {
        List<String> facts = new ArrayList<>();
        facts.add(state.amount());
        if (state.rate() > 0 && !state.unit().equals(SECONDS)) {
            facts.add(Quantity.rate(state.rate(), state.unit()));
        }
        if (state.etaSeconds() > 0) {
            facts.add(Quantity.remaining(state.etaSeconds()) + " left");
        }
        return facts;
    }

    private String json(State state) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("task", task);
        fields.put("done", state.done());
        fields.put("total", state.total());
        fields.put("unit", state.unit());
        fields.put("seconds", state.seconds());
        fields.put("per_second", state.rate());
        fields.put("eta_seconds", state.etaSeconds());
        return Json.line(fields);
    }

    /** Ends the task on screen, if any, so that a result can be printed. More can follow. */
    void end() {
        live.end();
        task = "";
    }

    @Override
    public void close() {
        end();
    }
}
