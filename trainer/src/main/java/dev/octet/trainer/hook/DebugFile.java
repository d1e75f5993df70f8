package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.trainer.observe.TensorReport;
import java.io.IOException;
import java.nio.file.Path;

/**
 * {@code debug.jsonl}: one JSON object for each observed step and tensor, with {@code step}, {@code iteration}, {@code layer}, {@code tensor} and
 * {@code stats}, values by name. A file of its own, since it may have thousands of lines for each line of {@code metrics.jsonl}. Non-finite numbers
 * are null. When a run resumes, the lines of the steps it repeats are removed.
 */
public final class DebugFile implements TrainingHook {
    /** Its name in a run's folder. */
    public static final String NAME = "debug.jsonl";

    private final StepLines lines;

    /** @param file output; created at the start of the run */
    public DebugFile(Path file) {
        lines = new StepLines(file);
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        lines.open(start.firstStep());
    }

    @Override
    public void tensorsObserved(ObservationReport report) throws IOException {
        for (TensorReport tensor : report.tensors()) {
            ObjectNode line = StepLines.line(report.step())
                    .put("iteration", report.iteration())
                    .put("layer", tensor.layer())
                    .put("tensor", tensor.tensor().label());
            ObjectNode stats = line.putObject("stats");
            tensor.values().forEach((name, value) -> StepLines.put(stats, name, value));
            lines.write(line);
        }
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        lines.close();
    }
}
