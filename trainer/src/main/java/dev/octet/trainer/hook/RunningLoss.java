package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The exponential moving average of a run's loss, over about the last 20 steps. The first loss is its first value; losses that are not finite do
 * not count.
 */
public final class RunningLoss {
    private static final double DECAY = 0.95;
    private static final ObjectMapper JSON = new ObjectMapper();

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
     * Adds the losses of earlier steps, so that the average of a resumed run continues. A file that is missing has none; lines that are not
     * metrics are skipped.
     *
     * @param metrics {@code metrics.jsonl} of the run
     * @param before the step that the run resumes with, from 1; losses from it on do not count
     * @throws IOException when the file cannot be read
     */
    public void addEarlier(Path metrics, long before) throws IOException {
        if (!Files.isRegularFile(metrics)) {
            return;
        }
        try (BufferedReader lines = Files.newBufferedReader(metrics)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode fields = fields(line);
                JsonNode loss = fields.path("loss");
                if (loss.isNumber() && fields.path("step").asLong(Long.MAX_VALUE) < before) {
                    add(loss.asDouble());
                }
            }
        }
    }

    private static JsonNode fields(String line) {
        try {
            return JSON.readTree(line);
        } catch (IOException e) {
            return JSON.createObjectNode(); // a line that a killed process left incomplete
        }
    }
}
