package dev.octet.pipeline.history;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.file.FolderLock;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.RunManifest;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.hook.DebugFile;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.Fp8Warning;
import dev.octet.trainer.hook.GuardFile;
import dev.octet.trainer.hook.MetricsFile;
import dev.octet.trainer.hook.StepLines;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The files that a run writes, read as far as they go; reading again continues where the last reading ended: {@link MetricsFile},
 * {@link Fp8Health}, {@link DebugFile} and {@link GuardFile}, whose lines may have any keys.
 */
public final class RunLog {
    private static final String STEP = "step";
    private static final String LOSS = "loss";
    private static final String EVAL_LOSS = "eval_loss";
    private static final String EVAL_PERPLEXITY = "eval_perplexity";
    private static final String GRAD_NORM = "grad_norm";
    private static final String LOSS_SCALE = "loss_scale";
    private static final String SPEED = "speed";

    /** Curves with charts of their own. */
    private static final Set<String> CURVES =
            Set.of(LOSS, "lr", GRAD_NORM, LOSS_SCALE, "fp8_clipped", "fp8_underflowed", "fp8_oldest_scale");

    /** Keys of metrics that no chart is for, or that {@link #SPEED} is made of. */
    private static final Set<String> OTHERS = Set.of(
            STEP,
            "epoch",
            "samples",
            "tokens",
            "seconds",
            "data_seconds",
            "tokens_per_second",
            "memory_bytes",
            "eval_samples",
            "eval_positions",
            "eval_seconds");

    private static final String HISTORY_LENGTH = "precision.policy.settings.recipe.amax_history_length";
    private static final int CURVE_BINS = 800;
    private static final int MORE_BINS = 120;
    private static final int MOST_MORE = 120;
    private static final int WORST_TENSORS = 6;

    /** Characters of a value in an event. */
    private static final int MOST_TEXT = 300;

    private final Path folder;
    private Reading reading;

    /**
     * How far a file was read.
     *
     * @param identity of the file: a run that repeats steps puts another one in its place
     */
    private record Position(long bytes, String identity) {
        static final Position START = new Position(0, "");
    }

    /** What was read so far. */
    private static final class Reading {
        private final JsonNode manifest;
        private final RunSummary summary;
        private final FileTime written;
        private final int historyLength;
        private final Map<String, Position> positions = new LinkedHashMap<>();
        private final Map<String, StepBins> curves = new LinkedHashMap<>();
        private final Map<String, StepBins> evaluations = new LinkedHashMap<>();
        private final Map<String, StepBins> more = new TreeMap<>();
        private final Set<String> moreLeft = new TreeSet<>();
        private final EventLog events = new EventLog();
        private final Fp8Grid fp8 = new Fp8Grid();
        private final Fp8Health health = new Fp8Health(0, 0, Path.of(Fp8Health.NAME));
        private long step;
        private @Nullable Double lastLoss;
        private double lossScale = Double.NaN;
        private boolean counted;
        private long skipped;
        private long notFinite;
        private long withoutStep;

        Reading(Path folder) throws IOException {
            written = Files.getLastModifiedTime(folder.resolve(RunManifest.NAME));
            manifest = RunSummary.manifest(folder);
            summary = RunSummary.of(folder);
            String length = manifest.path("settings").path(HISTORY_LENGTH).asText("");
            historyLength = length.matches("\\d{1,6}") ? Integer.parseInt(length) : Integer.MAX_VALUE;
            sessions();
        }

        private void sessions() {
            for (JsonNode session : manifest.path("sessions")) {
                long first = session.path("first_step").asLong();
                String how = first > 1 ? "resumed" : "started";
                events.add(RunEvent.of(
                        first,
                        RunEvent.Kind.SESSION,
                        text(how + " on " + session.path("device").asText("") + ", "
                                + session.path("precision").asText("") + ", Octet "
                                + session.path("octet").asText(""))));
            }
        }

        void metrics(JsonNode line) {
            if (!line.path(STEP).isIntegralNumber()) {
                withoutStep++;
                return;
            }
            long at = line.get(STEP).asLong();
            if (line.has(LOSS)) {
                step(at, line);
            }
            line.properties().forEach(field -> {
                String key = field.getKey();
                double value = number(field.getValue());
                if (CURVES.contains(key)) {
                    curves.computeIfAbsent(key, k -> new StepBins(CURVE_BINS)).add(at, value);
                } else if (key.equals(EVAL_LOSS) || key.equals(EVAL_PERPLEXITY)) {
                    evaluations
                            .computeIfAbsent(key, k -> new StepBins(CURVE_BINS))
                            .add(at, value);
                } else if (field.getValue().isNumber() && !OTHERS.contains(key)) {
                    more(at, key, value);
                }
            });
        }

        private void more(long at, String key, double value) {
            if (more.containsKey(key) || more.size() < MOST_MORE) {
                more.computeIfAbsent(key, k -> new StepBins(MORE_BINS)).add(at, value);
            } else if (moreLeft.size() < MOST_MORE * MOST_MORE) {
                moreLeft.add(key);
            }
        }

        void debug(JsonNode line) {
            if (!line.path(STEP).isIntegralNumber()) {
                withoutStep++;
                return;
            }
            String tensor =
                    line.path("layer").asText("") + " " + line.path("tensor").asText("") + " ";
            line.path("stats").properties().forEach(field -> {
                if (field.getValue().isNumber()) {
                    more(line.get(STEP).asLong(), tensor + field.getKey(), number(field.getValue()));
                }
            });
        }

        private void step(long at, JsonNode line) {
            step = Math.max(step, at);
            double loss = number(line.path(LOSS));
            lastLoss = Double.isFinite(loss) ? loss : null;
            if (!Double.isFinite(loss)) {
                notFinite++;
                events.add(RunEvent.of(at, RunEvent.Kind.NOT_FINITE, "the loss was not finite"));
            } else if (line.has(GRAD_NORM) && !Double.isFinite(number(line.path(GRAD_NORM)))) {
                events.add(RunEvent.of(at, RunEvent.Kind.NOT_FINITE, "the gradient norm was not finite"));
            }
            if (line.path("skipped").asBoolean()) {
                skipped++;
                events.add(RunEvent.of(at, RunEvent.Kind.SKIPPED, "the step was skipped"));
            }
            double scale = number(line.path(LOSS_SCALE));
            if (Double.isFinite(lossScale) && Double.isFinite(scale) && scale != lossScale) {
                events.add(RunEvent.of(
                        at, RunEvent.Kind.LOSS_SCALE, "loss scale " + plain(scale) + ", was " + plain(lossScale)));
            }
            lossScale = scale;
            double tokens = number(line.path("tokens"));
            counted |= tokens > 0;
            double speed = (counted ? tokens : number(line.path("samples"))) / number(line.path("seconds"));
            curves.computeIfAbsent(SPEED, k -> new StepBins(CURVE_BINS)).add(at, speed);
        }

        /** Scales are powers of two as a rule. */
        private static String plain(double scale) {
            return scale == Math.rint(scale) && Math.abs(scale) < 1e15
                    ? String.valueOf((long) scale)
                    : String.valueOf(scale);
        }

        void fp8(JsonNode line) {
            if (!line.path(STEP).isIntegralNumber()) {
                withoutStep++;
                return;
            }
            Fp8Grid.Measurement m = new Fp8Grid.Measurement(
                    line.get(STEP).asLong(),
                    line.path("tensor").asText(""),
                    line.path("layer").asText(line.path("tensor").asText("")),
                    line.path("kind").asText(""),
                    line.path("format").asText(""),
                    share(line, "clipped"),
                    share(line, "underflowed"),
                    number(line.path("amax")),
                    number(line.path("scale")),
                    line.path("scale_age").asLong());
            fp8.add(m);
            tensor(m, line).ifPresent(tensor -> {
                health.scaleUpdated(m.step() - m.scaleAge(), tensor.slot(), 0, tensor.scale());
                for (Fp8Warning warning :
                        health.report(m.step(), List.of(tensor)).warnings()) {
                    events.add(RunEvent.of(m.step(), RunEvent.Kind.FP8, text(warning.sentence())));
                }
            });
        }

        private Optional<Fp8Tensor> tensor(Fp8Grid.Measurement m, JsonNode line) {
            Optional<LinearTensor> kind = named(LinearTensor.values(), m.kind().toUpperCase(Locale.ROOT));
            Optional<Float8Format> format = named(Float8Format.values(), m.format());
            boolean delayed = m.scaleAge() > 0;
            return kind.flatMap(k -> format.map(f -> new Fp8Tensor(
                    line.path("slot").asText(m.tensor()),
                    m.layer(),
                    k,
                    f,
                    line.path("elements").asLong(),
                    line.path("clipped").asLong(),
                    line.path("underflowed").asLong(),
                    (float) m.amax(),
                    (float) m.scale(),
                    delayed ? historyLength : 0,
                    m.scaleAge())));
        }

        private static <E extends Enum<E>> Optional<E> named(E[] all, String name) {
            for (E each : all) {
                if (each.name().equals(name)) {
                    return Optional.of(each);
                }
            }
            return Optional.empty();
        }

        private static double share(JsonNode line, String key) {
            double share = number(line.path(key)) / Math.max(1, number(line.path("elements")));
            return Double.isNaN(share) ? 0 : Math.clamp(share, 0, 1);
        }

        void guard(JsonNode line) {
            if (!line.path(STEP).isIntegralNumber()) {
                withoutStep++;
                return;
            }
            Map<String, String> others = new TreeMap<>();
            line.properties().forEach(field -> {
                JsonNode value = field.getValue();
                others.put(text(field.getKey()), text(value.isTextual() ? value.asText() : value.toString()));
            });
            others.remove(STEP);
            others.remove("seeds"); // what a repeated run needs, not its reader
            String layer = taken(others, "layer");
            String product = taken(others, "product");
            StringBuilder what = new StringBuilder(words(taken(others, "action") + taken(others, "decision")));
            what.append(layer.isEmpty() && product.isEmpty() ? "" : " " + layer);
            what.append(layer.isEmpty() || product.isEmpty() ? "" : ".").append(product);
            if (others.containsKey("from") && others.containsKey("to")) {
                what.append(" from ")
                        .append(taken(others, "from"))
                        .append(" to ")
                        .append(taken(others, "to"));
            }
            String reason = taken(others, "reason") + words(taken(others, "trigger") + taken(others, "what"));
            what.append(reason.isEmpty() ? "" : ": ").append(reason);
            if (line.has("value") && line.path("limit").isNumber()) {
                others.remove("value");
                others.remove("limit");
                double value = number(line.path("value"));
                what.append(
                        Double.isFinite(value)
                                ? String.format(
                                        Locale.ROOT,
                                        " %.3g above %.3g",
                                        value,
                                        line.path("limit").asDouble())
                                : " not finite");
            }
            long at = line.get(STEP).asLong();
            events.add(new RunEvent(at, at, RunEvent.Kind.GUARD, what.toString().strip(), others));
        }

        private static String words(String key) {
            return key.replace('_', ' ');
        }

        private static String taken(Map<String, String> values, String key) {
            String value = values.remove(key);
            return value == null ? "" : value;
        }
    }

    private RunLog(Path folder) throws IOException {
        this.folder = folder;
        this.reading = new Reading(folder);
    }

    /**
     * Reads all that a run has written.
     *
     * @param folder of the run, see {@link RunSummary#find}
     * @throws dev.octet.formats.error.MalformedModelException when {@code run.json} is not a JSON object
     * @throws IOException when a file cannot be read
     */
    public static RunLog read(Path folder) throws IOException {
        RunLog log = new RunLog(folder);
        log.readOn();
        return log;
    }

    /**
     * Reads what the run has written since.
     *
     * @return whether there was anything
     */
    public boolean readOn() throws IOException {
        boolean anew =
                !Files.getLastModifiedTime(folder.resolve(RunManifest.NAME)).equals(reading.written) || isCut();
        if (anew) {
            reading = new Reading(folder); // another session began, which cuts what it does again
        }
        boolean metrics = readOn(MetricsFile.NAME);
        boolean health = readOn(Fp8Health.NAME);
        boolean debug = readOn(DebugFile.NAME);
        boolean guard = readOn(GuardFile.NAME);
        return anew || metrics || health || debug || guard;
    }

    private boolean isCut() throws IOException {
        for (Map.Entry<String, Position> file : reading.positions.entrySet()) {
            Path path = folder.resolve(file.getKey());
            Position read = file.getValue();
            boolean isThere = Files.isRegularFile(path);
            if (read.bytes > (isThere ? Files.size(path) : 0)
                    || (read.bytes > 0 && !read.identity.equals(identity(path)))) {
                return true;
            }
        }
        return false;
    }

    private static String identity(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            return "";
        }
        BasicFileAttributes attributes = Files.readAttributes(file, BasicFileAttributes.class);
        return attributes.fileKey() + " " + attributes.creationTime(); // Windows has no keys
    }

    private boolean readOn(String file) throws IOException {
        String identity = identity(folder.resolve(file));
        long from = reading.positions.getOrDefault(file, Position.START).bytes;
        long to = StepLines.readFrom(from, folder.resolve(file), line -> {
            switch (file) {
                case MetricsFile.NAME -> reading.metrics(line);
                case Fp8Health.NAME -> reading.fp8(line);
                case DebugFile.NAME -> reading.debug(line);
                default -> reading.guard(line);
            }
        });
        reading.positions.put(file, new Position(to, identity));
        return to > from;
    }

    /** Whether a process is writing to the run's folder. */
    public boolean isRunning() throws IOException {
        return FolderLock.isHeld(folder, Trainer.LOCK);
    }

    /**
     * What was read, for a page.
     *
     * @param name what the page calls the run
     */
    public RunHistory history(String name) throws IOException {
        Reading r = reading;
        RunSummary summary = r.summary;
        StepBins loss = r.curves.getOrDefault(LOSS, new StepBins(2));
        long span = span(loss.count());
        Map<String, String> settings = new TreeMap<>();
        r.manifest
                .path("settings")
                .properties()
                .forEach(e -> settings.put(e.getKey(), text(e.getValue().asText())));
        boolean complete = summary.steps() > 0 && r.step >= summary.steps();
        RunHistory.State state = isRunning()
                ? RunHistory.State.RUNNING
                : complete ? RunHistory.State.COMPLETE : RunHistory.State.STOPPED;
        return new RunHistory(
                name,
                folder.toString(),
                summary.model(),
                summary.precision(),
                summary.device(),
                summary.octet(),
                summary.started(),
                settings,
                state,
                summary.steps(),
                r.step,
                r.lastLoss,
                span,
                loss.isEmpty() ? Series.NONE : loss.smooth(span),
                r.counted ? "tokens" : "samples",
                series(r.curves),
                series(r.evaluations),
                series(r.more),
                r.moreLeft.size(),
                r.skipped,
                r.notFinite,
                events(r),
                r.events.left(),
                r.fp8.map(),
                r.fp8.scales(WORST_TENSORS),
                notes(r));
    }

    /** A hundredth of a long run, ten steps, or a thirtieth of a short run. */
    private static long span(long steps) {
        return Math.max(Math.clamp(steps / 30, 1, 10), steps / 100);
    }

    private List<RunEvent> events(Reading r) throws IOException {
        List<RunEvent> events = new ArrayList<>(r.events.all());
        for (long step : new CheckpointFolder(folder).steps()) {
            events.add(RunEvent.of(step, RunEvent.Kind.CHECKPOINT, CheckpointFolder.NAME + "/step-" + step));
        }
        events.sort((a, b) -> Long.compare(a.step(), b.step()));
        return events;
    }

    private static List<String> notes(Reading r) {
        List<String> notes = new ArrayList<>();
        if (r.step == 0) {
            notes.add("The run has done no step yet.");
        }
        if (r.withoutStep > 0) {
            notes.add(
                    r.withoutStep == 1
                            ? "One line of its files names no step; it is left out."
                            : r.withoutStep + " lines of its files name no step; they are left out.");
        }
        if (r.fp8.ignored() > 0) {
            notes.add(Fp8Health.NAME + " names more tensors than can be kept; " + r.fp8.ignored()
                    + " lines are left out.");
        }
        return notes;
    }

    private static Map<String, Series> series(Map<String, StepBins> bins) {
        Map<String, Series> all = new LinkedHashMap<>();
        bins.forEach((key, values) -> {
            if (!values.isEmpty()) {
                all.put(key, values.series());
            }
        });
        return all;
    }

    private static double number(JsonNode value) {
        return value.isNumber() ? value.asDouble() : Double.NaN;
    }

    private static String text(String text) {
        return text.length() <= MOST_TEXT ? text : text.substring(0, MOST_TEXT) + "…";
    }
}
