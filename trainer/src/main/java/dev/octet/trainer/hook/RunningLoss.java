package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;

/**
 * The exponential moving average of a run's loss, over about the last 20 steps. The first loss is its first value; losses that are not finite do
 * not count.
 */
public final class RunningLoss {
    private static final double DECAY = 0.95;

    private double mean = Double.NaN;

    /** Adds the loss of the next step. */
    public void add(double loss) {
        if (Double.isFinite(loss)) {
            mean = Double.isNaN(mean) ? loss : DECAY * mean + (1 - DECAY) * loss;
        }
    }

    /** The average; NaN before the first finite loss. */
    public double value() {
        return mean;
    }

    /**
     * Adds the losses of earlier steps, so that the average of a resumed run continues. A run without {@code metrics.jsonl} has none.
     *
     * @param run folder of the run
     * @param before the step that the run resumes with, from 1; losses from it on do not count
     * @throws IOException when the file cannot be read
     */
    public void addEarlier(Path run, long before) throws IOException {
        MetricsFile.read(run, line -> {
            JsonNode loss = line.path("loss");
            if (loss.isNumber() && line.path("step").asLong(Long.MAX_VALUE) < before) {
                add(loss.asDouble());
            }
        });
    }
}
