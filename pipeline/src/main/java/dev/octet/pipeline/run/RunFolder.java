package dev.octet.pipeline.run;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.trainer.RunManifest;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.hook.BestCheckpoint;
import dev.octet.trainer.hook.DebugFile;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.GuardFile;
import dev.octet.trainer.hook.MetricsFile;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.TensorBoard;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.hook.TransformerEngineLog;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.TensorDumps;
import dev.octet.trainer.qat.ScaleLearning;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * The folder that training leaves, for verbs that read it.
 *
 * @param model the model the run was started with
 * @param config the configuration it was started with
 */
public record RunFolder(Path folder, Path model, TrainingConfig config) {
    /** Key of a session in {@code run.json}: the model it was started with. */
    public static final String MODEL = "model";

    /** The folder that paths in the configuration start from. */
    public static final String CONFIG_FOLDER = "config_folder";

    /** Name of the configuration that a run keeps in its folder. */
    public static final String CONFIG = "config.yaml";

    /** Folder in that of a run where {@code octet doctor} keeps what it found out. */
    public static final String DOCTOR = "doctor";

    /** What a run writes in its folder in addition to its configuration. */
    public static final List<String> WRITTEN = List.of(
            RunManifest.NAME,
            MetricsFile.NAME,
            Fp8Health.NAME,
            GuardFile.NAME,
            DebugFile.NAME,
            TransformerEngineLog.FOLDERS.getFirst(),
            TransformerEngineLog.FOLDERS.getLast(),
            TensorDumps.NAME,
            DebugSettings.KEPT_FILE,
            CheckpointFolder.NAME,
            TensorBoard.FOLDER,
            DialectFiles.keptName(Dialect.DEEPSPEED),
            DialectFiles.keptName(Dialect.ACCELERATE),
            DialectFiles.keptName(Dialect.TRANSFORMERS),
            Trainer.LOCK);

    /** What a run has in its folder, files and folders by name. */
    public static final List<String> ENTRIES =
            Stream.concat(WRITTEN.stream(), Stream.of(CONFIG)).toList();

    /** The setting that says which adapter a run trains; runs that train the model itself do not have it. */
    public static final String ADAPTER = "adapter.config";

    private static final String SETTINGS = "settings";

    /** The option that gives keys of a configuration other values. */
    private static final String SET = "--set";

    /** The option that has one process play several ranks. */
    public static final String SIMULATE_RANKS = "--simulate-ranks";

    /**
     * Keeps the configuration in the run's folder, once the run has begun: as it is, or with the keys that were given other values.
     *
     * @param settings as in {@link #read}
     * @param simulatedRanks as in {@link #merged}
     * @param dialects as in {@link #read}; kept as they are under names of their own
     * @param debugFile of {@code debug:}, kept too: verbs that read the run need it
     */
    public record SavedConfig(
            Path config,
            List<String> settings,
            OptionalInt simulatedRanks,
            DialectFiles dialects,
            Optional<Path> debugFile)
            implements TrainingHook {
        public SavedConfig {
            settings = List.copyOf(settings);
        }

        @Override
        public void runStarted(RunStart start, RunControl control) throws IOException {
            byte[] text = settings.isEmpty() && simulatedRanks.isEmpty() && dialects.isEmpty()
                    ? Files.readAllBytes(config)
                    : changed().getBytes(StandardCharsets.UTF_8);
            write(start.folder().resolve(CONFIG), text);
            for (Map.Entry<Dialect, Path> each : dialects.files().entrySet()) {
                write(
                        start.folder().resolve(DialectFiles.keptName(each.getKey())),
                        Files.readAllBytes(each.getValue()));
            }
            if (debugFile.isPresent() && Files.isRegularFile(debugFile.get())) {
                write(start.folder().resolve(DebugSettings.KEPT_FILE), Files.readAllBytes(debugFile.get()));
            }
        }

        private static void write(Path file, byte[] text) throws IOException {
            try (AtomicFile copy = AtomicFile.create(file)) {
                copy.write(ByteBuffer.wrap(text));
                copy.commit();
            }
        }

        private String changed() throws IOException {
            StringBuilder text = new StringBuilder(comment(config.toString()));
            dialects.files()
                    .forEach((dialect, file) -> text.append(comment(DialectFiles.option(dialect) + " " + file)));
            settings.forEach(s -> text.append(comment(SET + " " + s)));
            simulatedRanks.ifPresent(n -> text.append(comment(SIMULATE_RANKS + " " + n)));
            return text
                    + merged(config, settings, simulatedRanks, dialects)
                            .section()
                            .yaml();
        }
    }

    private static String comment(String text) {
        return "# " + text.replaceAll("[\\p{Cntrl}\u2028\u2029]", " ") + "\n";
    }

    /**
     * Reads the configuration of a run. Relative paths in it start at its folder; where the run keeps it, at the folder that it was read from
     * first.
     *
     * @param folder of the run, there or not
     * @param settings keys with other values, as {@code optimizer.lr=1e-4}
     * @throws InvalidOptionException as {@link TrainingConfig#read}
     */
    public static TrainingConfig read(Path config, Path folder, List<String> settings) throws IOException {
        return TrainingConfig.of(
                merged(config, settings, OptionalInt.empty(), DialectFiles.NONE).section(),
                configFolder(config, folder));
    }

    /**
     * The configuration of a run with what else its command line gives.
     *
     * @param config the run's own; one of {@code dialects} where it has none
     * @param settings keys with other values, as {@code optimizer.lr=1e-4}
     * @param simulatedRanks ranks that one process plays; empty where the configuration says
     * @param dialects configurations of other libraries
     * @throws InvalidOptionException as {@link DialectFiles#merge} and {@link TrainingConfig#simulating}
     */
    public static DialectFiles.Merged merged(
            Path config, List<String> settings, OptionalInt simulatedRanks, DialectFiles dialects) throws IOException {
        DialectFiles.Merged merged = merged(config, settings, dialects);
        return simulatedRanks.isEmpty()
                ? merged
                : new DialectFiles.Merged(
                        TrainingConfig.simulating(merged.section(), simulatedRanks.getAsInt(), SIMULATE_RANKS),
                        merged.notes());
    }

    private static DialectFiles.Merged merged(Path config, List<String> settings, DialectFiles dialects)
            throws IOException {
        Section own = dialects.files().containsValue(config)
                ? YamlFile.parse("{}", config.toString())
                : YamlFile.read(config);
        return dialects.isEmpty()
                ? new DialectFiles.Merged(own.with(settings, SET), List.of())
                : dialects.merge(own, settings, SET);
    }

    /** The folder that relative paths in a configuration start from. */
    public static Path configFolder(Path config, Path folder) throws IOException {
        Path manifest = folder.resolve(RunManifest.NAME);
        boolean kept = Files.isRegularFile(manifest) && isSame(config, folder.resolve(CONFIG));
        return kept
                ? path(manifest, lastSession(json(manifest)).path(CONFIG_FOLDER).asText(folder.toString()))
                : parent(config);
    }

    private static boolean isSame(Path a, Path b) throws IOException {
        return Files.exists(a) && Files.exists(b) && Files.isSameFile(a, b);
    }

    /**
     * The configuration that a run keeps.
     *
     * @throws InvalidOptionException when the folder is not a run
     */
    public static Path config(Path folder) {
        requireRun(folder);
        return folder.resolve(CONFIG);
    }

    /**
     * The model that a run was started with.
     *
     * @param model where it lies now; empty for where it lay then
     * @throws InvalidOptionException when the folder is not a run, or the model is not there
     */
    public static Path model(Path folder, Optional<Path> model) throws IOException {
        requireRun(folder);
        Path manifest = folder.resolve(RunManifest.NAME);
        Path source = model.isPresent()
                ? model.get()
                : path(manifest, lastSession(json(manifest)).path(MODEL).asText(""));
        if (source.toString().isEmpty() || !Files.exists(source)) {
            throw new InvalidOptionException(
                    "the model that the run was started with is not there: " + source,
                    manifest.toString(),
                    "say where it lies with --model MODEL");
        }
        return source;
    }

    private static void requireRun(Path folder) {
        for (String file : List.of(RunManifest.NAME, CONFIG)) {
            if (!Files.isRegularFile(folder.resolve(file))) {
                throw new InvalidOptionException(
                        "the folder is not a run: it has no " + file,
                        folder.toString(),
                        "give the folder that `octet train -o` wrote");
            }
        }
    }

    private static JsonNode lastSession(JsonNode run) {
        JsonNode sessions = run.path("sessions");
        return sessions.path(sessions.size() - 1);
    }

    /**
     * Refuses to write a run over what its configuration says is read, and over a configuration that is none of its own.
     *
     * @param paths what else is read and written
     * @param resumed whether the run in the folder continues, so that the configuration there is its own
     */
    public static void requireApart(RunPaths paths, Path folder, Path config, TrainingConfig read, boolean resumed)
            throws IOException {
        reading(paths, read).requireApart();
        if (Files.exists(folder) && !Files.isDirectory(folder)) {
            throw new InvalidOptionException(
                    "'" + folder + "' is a file, and a run is a folder", "--output", "give the name of a folder");
        }
        Path kept = folder.resolve(CONFIG);
        boolean own = resumed || Files.exists(folder.resolve(RunManifest.NAME));
        if (!own && Files.exists(kept) && !Files.isSameFile(kept, config)) {
            throw new InvalidOptionException(
                    "'" + kept + "' is there already, and the run keeps its configuration under that name",
                    folder.toString(),
                    "choose another folder, or train with that file as --config");
        }
    }

    /** With what the run's configuration names. */
    public RunPaths readingData(RunPaths paths) {
        return reading(paths, config);
    }

    private static RunPaths reading(RunPaths paths, TrainingConfig config) {
        Map<String, Optional<Path>> named = new LinkedHashMap<>();
        named.put("data.train", Optional.of(config.data().train()));
        named.put("data.eval", config.data().eval());
        named.put("data.tokenizer", config.data().tokenizer());
        named.put("adapter.from", config.adapter().flatMap(AdapterSettings::from));
        named.put("data.chat_template", config.data().chat().template());
        named.put(
                "precision.scales.statistics",
                config.precision()
                        .qat()
                        .flatMap(q -> q.scales().calibration())
                        .map(ScaleLearning.Calibration::statistics));
        named.put("teacher", config.loss().distillation().map(LossConfig.Distillation::teacher));
        RunPaths all = paths;
        for (Map.Entry<String, Optional<Path>> path : named.entrySet()) {
            if (path.getValue().isPresent()) {
                all = all.reading(path.getKey(), path.getValue().get());
            }
        }
        return all;
    }

    /** The folder that a file lies in. */
    public static Path parent(Path file) {
        Path parent = file.toAbsolutePath().getParent();
        return parent == null ? Path.of("").toAbsolutePath() : parent;
    }

    /**
     * Reads what a run says of itself.
     *
     * @param model where the model lies now; empty for where it lay then
     * @throws InvalidOptionException when the folder is not a run, or the model is not there
     * @throws InvalidDataException when the model is not the one that the run was started with
     */
    public static RunFolder open(Path folder, Optional<Path> model) throws IOException {
        Path source = model(folder, model);
        Path config = folder.resolve(CONFIG);
        JsonNode run = json(folder.resolve(RunManifest.NAME));
        String wanted = run.path(SETTINGS).path("sha256.model").asText("");
        String found = OpenedModel.digest(source);
        if (!found.equals(wanted)) {
            throw new InvalidDataException(
                    "the model has SHA-256 " + found + ", the run was started with " + wanted,
                    source.toString(),
                    "say where the original lies with --model MODEL");
        }
        TrainingConfig read = read(config, folder, List.of());
        return new RunFolder(folder, source, read);
    }

    /** Whether a setting has no part in which batches a run sees and what it does with them, or is the precision of its numbers. */
    private static boolean isFreeInBaseline(String key) {
        return key.startsWith("precision.")
                || key.startsWith("checkpoint.")
                || key.startsWith("divergence.")
                || key.startsWith("fp8_health.")
                || key.startsWith("guard.")
                || key.startsWith("debug.")
                || key.startsWith("averaging.")
                || key.contains("data.eval")
                || List.of("data.train", "data.tokenizer", "eval_every", "eval_delay", "eval_on_start", "on_non_finite")
                        .contains(key);
    }

    /**
     * In what a run in another precision differs from a run that it is to be the baseline of, each as a few words; empty when only precision
     * and what is observed differ.
     *
     * @throws MalformedModelException when a {@code run.json} is not JSON
     */
    public static List<String> differences(Path run, Path baseline) throws IOException {
        JsonNode ours = json(run.resolve(RunManifest.NAME)).path(SETTINGS);
        JsonNode theirs = json(baseline.resolve(RunManifest.NAME)).path(SETTINGS);
        TreeSet<String> keys = new TreeSet<>();
        ours.fieldNames().forEachRemaining(keys::add);
        theirs.fieldNames().forEachRemaining(keys::add);
        return keys.stream()
                .filter(k -> !isFreeInBaseline(k) && !ours.path(k).equals(theirs.path(k)))
                .map(k -> k + " is " + theirs.path(k).asText("absent") + " there and "
                        + ours.path(k).asText("absent") + " here")
                .toList();
    }

    /** What a run says of one of its settings, or of the digest of an input: {@code sha256.data.train}; empty when it does not. */
    public static Optional<String> setting(Path run, String key) throws IOException {
        return Optional.ofNullable(
                json(run.resolve(RunManifest.NAME)).path(SETTINGS).path(key).textValue());
    }

    private static Path path(Path manifest, String text) {
        try {
            return Path.of(text);
        } catch (InvalidPathException e) {
            throw new MalformedModelException(
                    "not a path: '" + text + "'", manifest.toString(), "resume the run, which writes it anew", e);
        }
    }

    private static JsonNode json(Path manifest) throws IOException {
        try {
            return new ObjectMapper().readTree(new String(Files.readAllBytes(manifest), StandardCharsets.UTF_8));
        } catch (JsonProcessingException e) {
            throw new MalformedModelException(
                    RunManifest.NAME + " is not a JSON: " + e.getOriginalMessage(),
                    manifest.toString(),
                    "restore it, or resume the run, which writes it anew",
                    e);
        }
    }

    /** Stands for the step of the best evaluation, in a run whose {@code checkpoint:} has {@code best}. */
    public static final long BEST = -1;

    /**
     * The step of the best evaluation up to the newest checkpoint.
     *
     * @param folder of a run
     * @throws InvalidOptionException when the run compares none, or has evaluated nothing yet
     */
    public static long bestStep(Path folder) throws IOException {
        try (CheckpointFile newest = new CheckpointFolder(folder).openNewest()) {
            String step = newest.state().numbers().getOrDefault(BestCheckpoint.IN_CHECKPOINTS, "");
            if (!step.matches("\\d{1,18}")) {
                throw new InvalidOptionException(
                        "the run says of no checkpoint that it is the best",
                        folder.toString(),
                        "give a step, or train with checkpoint: {best: loss} and eval_every: epoch");
            }
            return Long.parseLong(step);
        }
    }

    /** The checkpoint of a step; the newest for 0, the best for {@link #BEST}. The caller closes it. */
    public CheckpointFile checkpoint(long step) throws IOException {
        CheckpointFolder checkpoints = new CheckpointFolder(folder);
        if (checkpoints.steps().isEmpty()) {
            throw new InvalidOptionException(
                    "the run has no checkpoint",
                    folder.toString(),
                    "train on until it has one; checkpoint: {every: N} decides when");
        }
        return step == 0 ? checkpoints.openNewest() : checkpoints.open(step == BEST ? bestStep(folder) : step);
    }
}
