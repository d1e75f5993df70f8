package dev.octet.cli;

import dev.octet.pipeline.TaskListener;
import java.io.PrintStream;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;
import org.jspecify.annotations.Nullable;

/** Shows on standard error how far long work is. Not for use by several threads at once; closing ends what is on screen. */
final class Progress implements TaskListener, AutoCloseable {
    private static final long PLAIN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(3);
    private static final long JSON_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final ProgressStyle style;
    private final PrintStream err;

    private String task = "";
    private long startNanos;
    private long startDone;
    private long shownNanos;
    private long shownDone;
    private @Nullable ProgressBar bar;

    Progress(ProgressStyle style, PrintStream err) {
        this.style = style;
        this.err = err;
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
            begin(name, done, total, unit);
        }
        switch (style) {
            case BAR -> {
                if (bar != null) {
                    bar.stepTo(done);
                }
            }
            case PLAIN -> line(done, total, unit, starts, PLAIN_EVERY_NANOS);
            case JSON -> line(done, total, unit, starts, JSON_EVERY_NANOS);
            case NONE -> {}
        }
    }

    private void begin(String name, long done, long total, String unit) {
        end();
        task = name;
        startNanos = System.nanoTime();
        startDone = done; // a continued run starts in the middle
        shownDone = -1;
        if (style == ProgressStyle.BAR) {
            bar = new ProgressBarBuilder()
                    .setTaskName(name)
                    .setInitialMax(total > 0 ? total : -1)
                    .setUnit(" " + unit, 1)
                    .setStyle(ProgressBarStyle.ASCII)
                    .setUpdateIntervalMillis(200)
                    .showSpeed()
                    .setConsumer(new ConsoleProgressBarConsumer(err, width()))
                    .build();
        }
    }

    /** Columns of the terminal as the launcher saw them: asking the terminal itself would need a native library. */
    private static int width() {
        return Math.clamp(Integer.getInteger("octet.columns", 80), 40, 120);
    }

    private void line(long done, long total, String unit, boolean starts, long everyNanos) {
        long now = System.nanoTime();
        boolean ends = total > 0 && done >= total && done != shownDone;
        if (!starts && !ends && now - shownNanos < everyNanos) {
            return;
        }
        shownNanos = now;
        shownDone = done;
        double seconds = (now - startNanos) / 1e9;
        double rate = done > startDone ? (done - startDone) / seconds : 0;
        double etaSeconds = rate > 0 && total > 0 ? (total - done) / rate : -1;
        err.println(
                style == ProgressStyle.JSON
                        ? json(done, total, unit, seconds, rate, etaSeconds)
                        : plain(done, total, unit, rate, etaSeconds));
    }

    private String plain(long done, long total, String unit, double rate, double etaSeconds) {
        String amount = total > 0
                ? String.format(Locale.ROOT, "%d of %d %s", done, total, unit)
                : String.format(Locale.ROOT, "%d %s", done, unit);
        String speed = rate > 0 ? String.format(Locale.ROOT, ", %.1f/s", rate) : "";
        String eta = etaSeconds > 0 ? String.format(Locale.ROOT, ", %.0f s left", Math.ceil(etaSeconds)) : "";
        return task + ": " + amount + speed + eta;
    }

    private String json(long done, long total, String unit, double seconds, double rate, double etaSeconds) {
        return Json.line(Map.of(
                "task", task,
                "done", done,
                "total", total,
                "unit", unit,
                "seconds", seconds,
                "per_second", rate,
                "eta_seconds", etaSeconds));
    }

    /** Ends the task on screen, if any, so that a result can be printed. More can follow. */
    void end() {
        if (bar != null) {
            bar.close();
            bar = null;
        }
        task = "";
    }

    @Override
    public void close() {
        end();
    }
}
