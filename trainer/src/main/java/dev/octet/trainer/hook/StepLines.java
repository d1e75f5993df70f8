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
 * A file of JSON objects, one per line, each with its {@code step}. Non-finite numbers are null. When a run resumes, the lines of the
 * steps it repeats are removed.
 */
final class StepLines {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String STEP = "step";

    private final Path file;
    private @Nullable BufferedWriter out;

    StepLines(Path file) {
        this.file = file;
    }

    /** Creates the file, or continues an existing one. */
    void open(long firstStep) throws IOException {
        cut(firstStep);
        out = Files.newBufferedWriter(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Keeps the lines of steps before {@code firstStep}; also drops a line that a killed process left incomplete. */
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
            JsonNode step = JSON.readTree(line).get(STEP);
            return step == null ? Long.MAX_VALUE : step.asLong(Long.MAX_VALUE);
        } catch (IOException e) {
            return Long.MAX_VALUE; // incomplete line
        }
    }

    /** A new line with its step. */
    static ObjectNode line(long step) {
        return JSON.createObjectNode().put(STEP, step);
    }

    static void put(ObjectNode line, String key, double value) {
        if (Double.isFinite(value)) {
            line.put(key, value);
        } else {
            line.putNull(key); // JSON has no NaN
        }
    }

    /** Appends a line; does nothing before {@link #open}. */
    void write(ObjectNode line) throws IOException {
        if (out != null) {
            out.write(line.toString());
            out.write('\n');
            out.flush(); // readers of a live run see each step
        }
    }

    void close() throws IOException {
        if (out != null) {
            out.close();
        }
    }
}
