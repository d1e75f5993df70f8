package dev.octet.pipeline.run;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.peft.PeftType;
import dev.octet.trainer.RunManifest;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.hook.MetricsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What the folder of a training run says of the run, without opening its model.
 *
 * @param folder of the run
 * @param model the model it was started with, where it lay then
 * @param modelThere whether something lies there now
 * @param precision in which it computes: {@code fp8 delayed, bf16}
 * @param device of the last session
 * @param octet version of the last session
 * @param started when the first session was, as ISO 8601
 * @param sessions how often it was started or resumed
 * @param parameters numbers that it trains
 * @param steps how many it is meant to do; 0 when the folder does not say
 * @param step the last that it did
 * @param loss of that step; null before the first
 * @param bestLoss of all steps; null before the first
 * @param evaluation the last one; null without any
 * @param bestEvalLoss of all evaluations; null without any
 * @param checkpoints their steps, ascending
 * @param config the configuration it keeps; null when it is not there
 * @param resumeWith a command line that goes on with the run; null when it is over or has no checkpoint
 * @param exportWith a command line that exports it; null without a checkpoint
 */
public record RunSummary(
        String folder,
        String model,
        boolean modelThere,
        String precision,
        String device,
        String octet,
        String started,
        int sessions,
        long parameters,
        long steps,
        long step,
        @Nullable Double loss,
        @Nullable Double bestLoss,
        @Nullable Evaluation evaluation,
        @Nullable Double bestEvalLoss,
        List<Long> checkpoints,
        @Nullable String config,
        @Nullable String resumeWith,
        @Nullable String exportWith) {
    /** Far more than a manifest with a thousand sessions has. */
    private static final long MAX_MANIFEST = 64L << 20;

    /** An evaluation of a run. */
    public record Evaluation(
            long step, double loss, @Nullable Double perplexity) {}

    public RunSummary {
        checkpoints = List.copyOf(checkpoints);
    }

    /** The folder of the run that a folder is, or that it is a checkpoint of: {@code RUN}, {@code RUN/checkpoints/step-N}. */
    public static Optional<Path> find(Path path) {
        Path at = path.toAbsolutePath().normalize();
        if (isRun(path)) {
            return Optional.of(path);
        }
        Path checkpoints = at.endsWith(CheckpointFolder.NAME) ? at : at.getParent();
        Path run = checkpoints != null && checkpoints.endsWith(CheckpointFolder.NAME) ? checkpoints.getParent() : null;
        return Optional.ofNullable(run).filter(r -> Files.isDirectory(at) && isRun(r));
    }

    private static boolean isRun(Path path) {
        return Files.isRegularFile(path.resolve(RunManifest.NAME)) && !Files.exists(path.resolve("config.json"));
    }

    /**
     * Reads what the folder says.
     *
     * @param folder of the run, see {@link #find}
     * @throws MalformedModelException when {@code run.json} is not a JSON object
     * @throws IOException when a file cannot be read
     */
    public static RunSummary of(Path folder) throws IOException {
        JsonNode run = manifest(folder);
        JsonNode sessions = run.path("sessions");
        JsonNode session = sessions.path(sessions.size() - 1);
        String model = session.path(RunFolder.MODEL).asText("");
        Metrics metrics = Metrics.read(folder);
        List<Long> checkpoints = new CheckpointFolder(folder).steps();
        long steps = run.path("settings")
                .path("steps")
                .asLong(session.path("last_step").asLong());
        boolean goesOn = !checkpoints.isEmpty() && checkpoints.getLast() < steps;
        Path config = folder.resolve(RunFolder.CONFIG);
        return new RunSummary(
                folder.toString(),
                model,
                exists(model),
                session.path("precision").asText(""),
                session.path("device").asText(""),
                session.path("octet").asText(""),
                sessions.path(0).path("started").asText(""),
                sessions.size(),
                session.path("trained_parameters").asLong(),
                steps,
                metrics.step,
                metrics.loss,
                metrics.bestLoss,
                metrics.evaluation,
                metrics.bestEvalLoss,
                checkpoints,
                Files.isRegularFile(config) ? config.toString() : null,
                goesOn ? "octet train --resume " + ShellWord.of(folder) : null,
                checkpoints.isEmpty() ? null : exportCommand(folder, model, adapter(run)));
    }

    /** The method of the adapter that a run trains; empty where it trains the model itself. */
    private static Optional<PeftType> adapter(JsonNode run) {
        String config = run.path("settings").path(RunFolder.ADAPTER).asText("");
        return Arrays.stream(PeftType.values())
                .filter(t -> config.contains("\"peft_type\":\"" + t.name() + "\""))
                .findFirst();
    }

    /**
     * A command line that exports a run to where its model came from: an ONNX file, or a folder of Hugging Face; an adapter to a PEFT folder.
     *
     * @param adapter method of the adapter that it trains; empty where it trains the model itself
     */
    public static String exportCommand(Path folder, String model, Optional<PeftType> adapter) {
        if (adapter.isPresent()) {
            return "octet export " + ShellWord.of(folder) + " -o " + ShellWord.of(folder.resolve("adapter"))
                    + " --target peft";
        }
        boolean fromOnnx = model.endsWith(".onnx");
        return "octet export " + ShellWord.of(folder) + " -o "
                + ShellWord.of(folder.resolve(fromOnnx ? "model.onnx" : "model")) + " --target "
                + (fromOnnx ? "onnxruntime" : "huggingface");
    }

    /**
     * A command line that merges the adapter of a run into its base; empty where that cannot be done: virtual tokens are no part of any weight, bottlenecks are layers
     * of their own.
     */
    public static Optional<String> mergeCommand(Path folder, long step, Path model, PeftType adapter) {
        if (adapter.isPrompt() || adapter == PeftType.BOTTLENECK) {
            return Optional.empty();
        }
        return Optional.of("octet merge " + ShellWord.of(model) + " "
                + ShellWord.of(new CheckpointFolder(folder).path(step)) + " -o "
                + ShellWord.of(folder.resolve(model.toString().endsWith(".onnx") ? "merged.onnx" : "merged")));
    }

    private static boolean exists(String model) {
        try {
            return !model.isEmpty() && Files.exists(Path.of(model));
        } catch (InvalidPathException e) {
            return false;
        }
    }

    /**
     * What {@code run.json} says.
     *
     * @param folder of the run
     * @throws MalformedModelException when it is not a JSON object
     * @throws IOException when it cannot be read
     */
    public static JsonNode manifest(Path folder) throws IOException {
        Path file = folder.resolve(RunManifest.NAME);
        String problem = "has more than " + MAX_MANIFEST + " bytes";
        if (Files.size(file) <= MAX_MANIFEST) {
            try {
                JsonNode json = new ObjectMapper().readTree(Files.readAllBytes(file));
                if (json.isObject()) {
                    return json;
                }
                problem = "is not a JSON object";
            } catch (JsonProcessingException e) {
                problem = "is not JSON: " + e.getOriginalMessage();
            }
        }
        throw new MalformedModelException(
                RunManifest.NAME + " " + problem,
                file.toString(),
                "restore it, or resume the run, which writes it anew");
    }

    /** The last and the best of what a run measured. */
    private static final class Metrics {
        private long step;
        private @Nullable Double loss;
        private @Nullable Double bestLoss;
        private @Nullable Evaluation evaluation;
        private @Nullable Double bestEvalLoss;

        static Metrics read(Path run) throws IOException {
            Metrics metrics = new Metrics();
            MetricsFile.read(run, metrics::add);
            return metrics;
        }

        private void add(JsonNode entry) {
            long at = entry.path("step").asLong();
            if (entry.path("loss").isNumber()) {
                step = at;
                loss = entry.path("loss").asDouble();
                bestLoss = least(bestLoss, loss);
            }
            if (entry.path("eval_loss").isNumber()) {
                double found = entry.path("eval_loss").asDouble();
                JsonNode perplexity = entry.path("eval_perplexity");
                evaluation = new Evaluation(at, found, perplexity.isNumber() ? perplexity.asDouble() : null);
                bestEvalLoss = least(bestEvalLoss, found);
            }
        }

        private static Double least(@Nullable Double best, double found) {
            return Optional.ofNullable(best).map(b -> Math.min(b, found)).orElse(found);
        }
    }
}
