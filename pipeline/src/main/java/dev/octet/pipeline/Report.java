package dev.octet.pipeline;

import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.RunFacts;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.RunPaths;
import dev.octet.pipeline.history.RunEvent;
import dev.octet.pipeline.history.RunHistory;
import dev.octet.pipeline.history.RunLog;
import dev.octet.pipeline.history.Series;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.trainer.RunManifest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** Training runs as one self-contained HTML page: curves, FP8 health by layer and step, events. Several runs share the charts. */
public final class Report {
    /** Name of the page where the caller names none. */
    public static final String PAGE = "report.html";

    /** More curves than that are not told apart in one chart. */
    private static final int MOST_RUNS = 12;

    private Report() {}

    /**
     * What to draw.
     *
     * @param runs their folders
     * @param page where to write
     */
    public record Request(List<Path> runs, Path page) {
        public Request {
            runs = List.copyOf(runs);
        }

        /** The page of one run in its folder; of several in the folder that the first one lies in. */
        public static Request of(List<Path> runs) {
            Path first = runs.getFirst();
            return new Request(runs, runs.size() == 1 ? first.resolve(PAGE) : first.resolveSibling(PAGE));
        }

        /** The same on another page. */
        public Request onPage(Path other) {
            return new Request(runs, other);
        }
    }

    /**
     * What was drawn.
     *
     * @param page where it lies
     * @param bytes its size
     * @param seconds the time that it took
     */
    public record Result(String page, long bytes, List<Run> runs, double seconds) {
        public Result {
            runs = List.copyOf(runs);
        }
    }

    /**
     * A run of the page.
     *
     * @param state {@code running}, {@code complete} or {@code stopped}
     * @param step the last that it did; 0 before the first
     * @param steps how many it is meant to do
     * @param loss of the last step; null when not known or not finite
     * @param smoothLoss mean of the last losses
     * @param bestEvalLoss of all evaluations; null without any
     * @param skipped steps whose gradients were not applied
     * @param notFinite steps whose loss was not finite
     * @param events on the page, by kind
     */
    public record Run(
            String run,
            String state,
            long step,
            long steps,
            @Nullable Double loss,
            @Nullable Double smoothLoss,
            @Nullable Double bestEvalLoss,
            long skipped,
            long notFinite,
            Map<String, Long> events) {
        static Run of(RunHistory h) {
            Map<String, Long> events = new TreeMap<>();
            h.events().forEach(e -> events.merge(kind(e.kind()), 1L, Long::sum));
            h.eventsLeft().forEach((kind, n) -> events.merge(kind(kind), n, Long::sum));
            return new Run(
                    h.folder(),
                    Report.state(h.state()),
                    h.step(),
                    h.steps(),
                    h.lastLoss(),
                    last(h.smooth()),
                    least(h.evaluations().get("eval_loss")),
                    h.skipped(),
                    h.notFinite(),
                    events);
        }

        private static String kind(RunEvent.Kind kind) {
            return kind.name().toLowerCase(Locale.ROOT);
        }

        private static @Nullable Double last(Series series) {
            return series.min().stream()
                    .filter(Objects::nonNull)
                    .reduce((a, b) -> b)
                    .orElse(null);
        }

        private static @Nullable Double least(@Nullable Series series) {
            return series == null
                    ? null
                    : series.min().stream()
                            .filter(Objects::nonNull)
                            .min(Double::compare)
                            .orElse(null);
        }
    }

    /** Decides how long runs are followed. */
    public interface Follower {
        /** The page shows the runs as they are now. */
        void written(Result result);

        /**
         * Waits until it is time to look at the runs again.
         *
         * @return whether to go on; false to write the page a last time
         */
        boolean awaitNext() throws InterruptedException;
    }

    /**
     * What the page is drawn from.
     *
     * @param refreshSeconds after so many the page loads itself again; 0 for never
     */
    record Data(List<RunHistory> runs, long refreshSeconds, RunFacts run) {}

    /**
     * Draws the runs as they are.
     *
     * @throws dev.octet.formats.error.OctetException when a folder is not a run, or the page exists and may not be replaced
     * @throws IOException when a file cannot be read, or the page not be written
     */
    public static Result run(Request request, Job job) throws IOException {
        requireReady(request, job);
        Stopwatch watch = new Stopwatch();
        List<RunLog> logs = read(request);
        watch.step("read");
        return write(request, logs, 0, watch, job);
    }

    /**
     * Draws the runs again and again while one of them goes on. The page loads itself again in a browser, except for the last one.
     *
     * @param everySeconds for the page: how often it loads itself again
     * @throws dev.octet.formats.error.OctetException as {@link #run}
     * @throws IOException as {@link #run}
     */
    public static Result follow(Request request, long everySeconds, Follower follower, Job job) throws IOException {
        requireReady(request, job);
        List<RunLog> logs = read(request);
        boolean running = isRunning(logs);
        Result result = write(request, logs, running ? everySeconds : 0, new Stopwatch(), job);
        while (running) {
            follower.written(result);
            boolean goesOn = awaitNext(follower);
            boolean news = false;
            boolean still = isRunning(logs); // asked first: what a run writes before it ends is read after
            for (RunLog log : logs) {
                news |= log.readOn();
            }
            running = goesOn && still;
            if (news || !running) {
                result = write(request, logs, running ? everySeconds : 0, new Stopwatch(), job);
            }
        }
        return result;
    }

    private static boolean awaitNext(Follower follower) {
        try {
            return follower.awaitNext();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static boolean isRunning(List<RunLog> logs) throws IOException {
        boolean running = false;
        for (RunLog log : logs) {
            running |= log.isRunning();
        }
        return running;
    }

    private static void requireReady(Request request, Job job) throws IOException {
        if (request.runs().size() > MOST_RUNS) {
            throw job.invalid(
                    request.runs().size() + " runs, and a page draws " + MOST_RUNS + " at most", "leave some out");
        }
        RunPaths paths = RunPaths.none().writing("--output", request.page());
        Set<Path> seen = new HashSet<>();
        for (Path run : request.runs()) {
            if (!Files.exists(run)) {
                throw new NoSuchFileException(run.toString());
            }
            Path folder = folder(run);
            if (!seen.add(folder.toRealPath())) {
                throw job.invalid("'" + run + "' is given twice", "name each run once");
            }
            for (String entry : RunFolder.ENTRIES) {
                paths = paths.reading("RUN", folder.resolve(entry));
            }
        }
        job.requireFileName(request.page());
        paths.requireApart();
        job.refuseExisting(request.page());
    }

    private static Path folder(Path run) {
        return RunSummary.find(run)
                .orElseThrow(() -> new InvalidOptionException(
                        Files.isDirectory(run)
                                ? "the folder is not a run: it has no " + RunManifest.NAME
                                : "'" + run + "' is a file, and a run is a folder",
                        run.toString(),
                        "give the folder that `octet train -o` wrote"));
    }

    private static List<RunLog> read(Request request) throws IOException {
        List<RunLog> logs = new ArrayList<>();
        for (Path run : request.runs()) {
            logs.add(RunLog.read(folder(run)));
        }
        return logs;
    }

    private static Result write(Request request, List<RunLog> logs, long refreshSeconds, Stopwatch watch, Job job)
            throws IOException {
        List<String> names = names(request.runs());
        List<RunHistory> runs = new ArrayList<>();
        for (int i = 0; i < logs.size(); i++) {
            runs.add(logs.get(i).history(names.get(i)));
        }
        watch.step("thin");
        RunFacts facts = new Provenance(job).facts(Provenance.Ran.OCTET, List.of(), watch.timings());
        HtmlPage.write("run-report", String.join(", ", names), new Data(runs, refreshSeconds, facts), request.page());
        return new Result(
                request.page().toString(),
                Files.size(request.page()),
                runs.stream().map(Run::of).toList(),
                watch.seconds());
    }

    private static String state(RunHistory.State state) {
        return state.name().toLowerCase(Locale.ROOT);
    }

    /** The last parts of the paths: as many as it takes to tell them apart. */
    static List<String> names(List<Path> runs) {
        List<Path> paths =
                runs.stream().map(r -> r.toAbsolutePath().normalize()).toList();
        int longest = paths.stream().mapToInt(Path::getNameCount).max().orElse(1);
        for (int parts = 1; parts < longest; parts++) {
            int count = parts;
            List<String> names = paths.stream()
                    .map(p -> p.subpath(Math.max(0, p.getNameCount() - count), p.getNameCount())
                            .toString())
                    .toList();
            if (new HashSet<>(names).size() == names.size()) {
                return names;
            }
        }
        return paths.stream().map(Path::toString).toList();
    }
}
