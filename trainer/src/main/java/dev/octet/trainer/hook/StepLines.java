package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedWriter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A file of JSON objects, one per line, each with its {@code step}: {@link MetricsFile}, {@link Fp8Health}. Non-finite numbers are null. When
 * a run resumes, the lines of the steps it repeats are removed.
 */
public final class StepLines {
    /** The longest line that is read, in bytes: runs write lines of a few hundred. */
    private static final int MAX_LINE = 1 << 20;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String STEP = "step";

    private final Path file;
    private @Nullable BufferedWriter out;

    /** A line of a file. */
    private interface Visitor {
        void line(ObjectNode fields, byte[] text) throws IOException;
    }

    StepLines(Path file) {
        this.file = file;
    }

    /**
     * Reads the lines of a file in order. A missing file has none. Lines that are not a JSON object are skipped: the last one of a killed
     * process may be incomplete.
     *
     * @throws IOException when the file cannot be read
     */
    public static void read(Path file, Consumer<JsonNode> line) throws IOException {
        readFrom(0, file, line);
    }

    /**
     * Reads on in a file that grows. An incomplete last line is left for the next call.
     *
     * @param position in bytes: 0, or what the last call returned
     * @return where the next call begins
     * @throws IOException when the file cannot be read
     */
    public static long readFrom(long position, Path file, Consumer<JsonNode> line) throws IOException {
        return Files.isRegularFile(file) ? visit(position, file, (fields, text) -> line.accept(fields)) : 0;
    }

    private static long visit(long position, Path file, Visitor visitor) throws IOException {
        long next = position;
        try (InputStream in = Files.newInputStream(file)) {
            in.skipNBytes(Math.min(position, Files.size(file)));
            byte[] buffer = new byte[1 << 16];
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            long length = 0;
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                int start = 0;
                for (int i = 0; i < n; i++) {
                    if (buffer[i] == '\n') {
                        length += i - start;
                        if (length <= MAX_LINE) {
                            line.write(buffer, start, i - start);
                            visit(line.toByteArray(), visitor);
                        }
                        next += length + 1;
                        line.reset();
                        length = 0;
                        start = i + 1;
                    }
                }
                length += n - start;
                if (length <= MAX_LINE) {
                    line.write(buffer, start, n - start);
                }
            }
            if (length <= MAX_LINE && visit(line.toByteArray(), visitor)) {
                next += length; // complete, but for its line end
            }
        }
        return next;
    }

    private static boolean visit(byte[] text, Visitor visitor) throws IOException {
        JsonNode fields;
        try {
            fields = JSON.readTree(text);
        } catch (IOException e) {
            return false; // not JSON
        }
        if (fields instanceof ObjectNode object) {
            visitor.line(object, text);
            return true;
        }
        return false;
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
        Path next = file.resolveSibling(file.getFileName() + ".tmp");
        try (OutputStream kept = new BufferedOutputStream(Files.newOutputStream(next))) {
            visit(0, file, (fields, text) -> {
                if (fields.path(STEP).asLong(Long.MAX_VALUE) < firstStep) {
                    kept.write(text);
                    kept.write('\n');
                }
            });
        }
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING);
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
