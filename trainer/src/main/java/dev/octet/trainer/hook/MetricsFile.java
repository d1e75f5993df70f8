package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import org.jspecify.annotations.Nullable;

/**
 * {@code metrics.jsonl}: one JSON object a line, {@code step} and {@code loss}, {@code lr}, {@code grad_norm} and more for each step,
 * {@code eval_loss} for evaluations. Numbers that are not finite are text. Lines of steps that a resumed run does again are removed.
 */
public final class MetricsFile implements TrainingHook {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path file;
    private @Nullable BufferedWriter out;

    /** @param file it is written to; made when the run starts */
    public MetricsFile(Path file) {
        this.file = file;
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        cut(start.firstStep());
        out = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Keeps the lines of steps before {@code firstStep}; a line that a killed process left half-written goes too. */
    private void cut(long firstStep) throws IOException {
        if (!Files.exists(file)) {
            return;
        }
        StringBuilder kept = new StringBuilder();
        for (String line : Files.readAllLines(file)) {
            if (stepOf(line) < firstStep) {
                kept.append(line).append('\n');
            }
        }
        Path next = file.resolveSibling(file.getFileName() + ".tmp");
        Files.write(next, kept.toString().getBytes(StandardCharsets.UTF_8));
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING);
    }

    private static long stepOf(String line) {
        try {
            JsonNode step = JSON.readTree(line).get("step");
            return step == null ? Long.MAX_VALUE : step.asLong(Long.MAX_VALUE);
        } catch (IOException e) {
            return Long.MAX_VALUE; // half a line
        }
    }

    @Override
    public void afterStep(StepReport r) throws IOException {
        ObjectNode line = JSON.createObjectNode().put("step", r.step());
        put(line, "loss", r.loss());
        r.lossParts().forEach((part, loss) -> put(line, part + "_loss", loss));
        put(line, "lr", r.lr());
        put(line, "grad_norm", r.gradNorm());
        put(line, "loss_scale", r.lossScale());
        line.put("skipped", r.skipped()).put("samples", r.samples()).put("tokens", r.tokens());
        put(line, "seconds", r.seconds());
        put(line, "data_seconds", r.dataSeconds());
        put(line, "tokens_per_second", r.tokens() / r.seconds());
        line.put("memory_bytes", r.memoryBytes());
        write(line);
    }

    @Override
    public void evaluated(EvaluationReport r) throws IOException {
        ObjectNode line = JSON.createObjectNode().put("step", r.step());
        put(line, "eval_loss", r.loss());
        r.lossParts().forEach((part, loss) -> put(line, "eval_" + part + "_loss", loss));
        line.put("eval_samples", r.samples());
        put(line, "eval_seconds", r.seconds());
        write(line);
    }

    private static void put(ObjectNode line, String key, double value) {
        if (Double.isFinite(value)) {
            line.put(key, value);
        } else {
            line.put(key, String.valueOf(value)); // JSON has no NaN
        }
    }

    private void write(ObjectNode line) throws IOException {
        if (out != null) {
            out.write(line.toString());
            out.write('\n');
            out.flush(); // who follows the file sees each step
        }
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        if (out != null) {
            out.close();
        }
    }
}
