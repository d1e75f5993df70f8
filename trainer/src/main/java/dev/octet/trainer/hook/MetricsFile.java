package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.trainer.loss.LossValue;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * {@code metrics.jsonl}: one JSON object per line. Steps have {@code step}, {@code loss}, {@code lr}, {@code grad_norm}, {@code epoch} and more; measured
 * FP8 steps also {@code fp8_clipped}, {@code fp8_underflowed} (shares) and {@code fp8_oldest_scale} (steps); evaluations have
 * {@code eval_loss} and, for token losses, {@code eval_perplexity}. Non-finite numbers are null. When a run resumes, the lines of the
 * steps it repeats are removed.
 */
public final class MetricsFile implements TrainingHook {
    /** Name of the file in the folder of a run. */
    public static final String NAME = "metrics.jsonl";

    private final StepLines lines;
    private @Nullable Fp8Report fp8;

    /** @param file output; created at the start of the run */
    public MetricsFile(Path file) {
        lines = new StepLines(file);
    }

    /**
     * Reads the lines of a run in order, see {@link StepLines#read}.
     *
     * @param run folder of the run
     * @throws IOException when the file cannot be read
     */
    public static void read(Path run, Consumer<JsonNode> line) throws IOException {
        StepLines.read(run.resolve(NAME), line);
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        lines.open(start.firstStep());
    }

    @Override
    public void fp8Measured(Fp8Report report) {
        fp8 = report;
    }

    @Override
    public void afterStep(StepReport r) throws IOException {
        ObjectNode line = StepLines.line(r.step());
        StepLines.put(line, "loss", r.loss());
        r.lossParts().forEach((part, loss) -> StepLines.put(line, LossValue.field(part), loss));
        StepLines.put(line, "lr", r.lr());
        StepLines.put(line, "grad_norm", r.gradNorm());
        StepLines.put(line, "loss_scale", r.lossScale());
        StepLines.put(line, "epoch", r.epoch());
        line.put("skipped", r.skipped()).put("samples", r.samples()).put("tokens", r.tokens());
        StepLines.put(line, "seconds", r.seconds());
        StepLines.put(line, "data_seconds", r.dataSeconds());
        StepLines.put(line, "tokens_per_second", r.tokens() / r.seconds());
        line.put("memory_bytes", r.memoryBytes());
        if (fp8 != null) {
            line.put("fp8_clipped", fp8.clippedShare())
                    .put("fp8_underflowed", fp8.underflowedShare())
                    .put("fp8_oldest_scale", fp8.oldestScale());
            fp8 = null;
        }
        r.ranks().ifPresent(ranks -> {
            StepLines.put(line, "reduction_saturated", ranks.saturatedShare());
            StepLines.put(line, "reduction_pre_scale_min", ranks.smallestPreScale());
            StepLines.put(line, "reduction_pre_scale_max", ranks.largestPreScale());
            if (ranks.saturated() > 0) {
                line.put("reduction_worst", ranks.worst()).put("reduction_worst_saturated", ranks.worstShare());
            }
        });
        lines.write(line);
    }

    @Override
    public void rolledBack(long step) throws IOException {
        lines.cutAfter(step);
    }

    @Override
    public void evaluated(EvaluationReport r) throws IOException {
        ObjectNode line = StepLines.line(r.step());
        StepLines.put(line, "eval_loss", r.loss());
        r.lossParts().forEach((part, loss) -> StepLines.put(line, "eval_" + LossValue.field(part), loss));
        r.perplexity().ifPresent(p -> StepLines.put(line, "eval_perplexity", p));
        line.put("eval_samples", r.samples()).put("eval_positions", r.positions());
        StepLines.put(line, "eval_seconds", r.seconds());
        lines.write(line);
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        lines.close();
    }
}
