package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.JsonFault;
import dev.octet.formats.file.MappedFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The texts of a file with one JSON object per line, {@code {"text": "..."}}; other keys and blank lines are skipped. Opening checks all
 * lines and keeps only their positions, so memory does not grow with the texts.
 */
final class JsonLines implements AutoCloseable {
    /** A file with a longer line is hardly JSON Lines. */
    static final long MAX_LINE_BYTES = 16L << 20;

    private static final JsonFactory JSON = JsonFactory.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();
    private static final String EXAMPLE = "one object per line, for example {\"text\": \"A sentence.\"}";

    private final Path path;
    private final Arena arena;
    private final MemorySegment bytes;
    private long[] starts = new long[1024];
    private long[] ends = new long[1024];
    private long[] lineNumbers = new long[1024];
    private int count;

    private JsonLines(Path path, Arena arena, MemorySegment bytes) {
        this.path = path;
        this.arena = arena;
        this.bytes = bytes;
    }

    /**
     * Maps and checks a file.
     *
     * @throws InvalidDataException when a line is not such an object (the message has its number), or there are no lines
     * @throws IOException when the file cannot be read
     */
    static JsonLines open(Path path) throws IOException {
        Arena arena = Arena.ofShared();
        try {
            JsonLines lines = new JsonLines(path, arena, MappedFile.map(path, arena));
            lines.index(i -> lines.text(i));
            return lines;
        } catch (IOException | RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    /**
     * Maps a file and finds its lines, which may be any objects; throws as {@link #open}, but for what lines have.
     */
    static JsonLines index(Path path) throws IOException {
        Arena arena = Arena.ofShared();
        try {
            JsonLines lines = new JsonLines(path, arena, MappedFile.map(path, arena));
            lines.index(_ -> {});
            return lines;
        } catch (IOException | RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    int count() {
        return count;
    }

    /** Line {@code i} as it stands in the file, not counting blank lines. */
    byte[] bytes(int i) {
        return bytes.asSlice(starts[i], ends[i] - starts[i]).toArray(ValueLayout.JAVA_BYTE);
    }

    /** Text of line {@code i}, not counting blank lines. */
    String text(int i) {
        return parse(starts[i], ends[i], lineNumbers[i]);
    }

    /** Number of the line of text {@code i} in the file, from 1. */
    long line(int i) {
        return lineNumbers[i];
    }

    /**
     * The label of text {@code i}: a number or a list of numbers; empty when the line does not have the key, or null for it.
     *
     * @throws InvalidDataException when the label is something else
     */
    Optional<LineLabels.Label> label(int i, String key) {
        try (JsonParser p = JSON.createParser(bytes(i))) {
            p.nextToken();
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                boolean found = p.currentName().equals(key);
                JsonToken value = p.nextToken();
                if (found && value != JsonToken.VALUE_NULL) {
                    return Optional.of(label(p, key, lineNumbers[i]));
                }
                p.skipChildren();
            }
            return Optional.empty();
        } catch (IOException e) {
            throw broken("not JSON: " + e.getMessage(), lineNumbers[i], e); // the file has changed since it was checked
        }
    }

    private LineLabels.Label label(JsonParser p, String key, long line) throws IOException {
        if (p.currentToken().isNumeric()) {
            return new LineLabels.Label(new double[] {number(p, key, line)}, isWhole(p));
        }
        if (p.currentToken() != JsonToken.START_ARRAY) {
            throw notANumber(p, key, line);
        }
        double[] values = new double[8];
        boolean whole = true;
        int n = 0;
        while (p.nextToken() != JsonToken.END_ARRAY) {
            values = n == values.length ? Arrays.copyOf(values, 2 * n) : values;
            values[n++] = number(p, key, line);
            whole &= isWhole(p);
        }
        return new LineLabels.Label(Arrays.copyOf(values, n), whole);
    }

    private static boolean isWhole(JsonParser p) {
        return p.currentToken() == JsonToken.VALUE_NUMBER_INT;
    }

    private double number(JsonParser p, String key, long line) throws IOException {
        if (!p.currentToken().isNumeric()) {
            throw notANumber(p, key, line);
        }
        double value = p.getDoubleValue();
        if (!Double.isFinite(value)) {
            throw broken("\"" + key + "\" is " + p.getText() + ", which no F32 can hold", line, null);
        }
        return value;
    }

    private InvalidDataException notANumber(JsonParser p, String key, long line) throws IOException {
        String text = p.getText();
        return new InvalidDataException(
                "\"" + key + "\" is not a number: " + (text.length() > 40 ? text.substring(0, 40) + "..." : text),
                path + ", line " + line,
                "give class numbers, which count from 0, or what a regression is to answer");
    }

    private void index(IntConsumer check) {
        long line = 1;
        long start = startsWithByteOrderMark() ? 3 : 0;
        while (start < bytes.byteSize()) {
            long end = endOfLine(start, line);
            if (!isBlank(start, end)) {
                add(start, end, line);
                check.accept(count - 1);
            }
            start = end + 1;
            line++;
        }
        if (count == 0) {
            throw new InvalidDataException("the file has no samples", path.toString(), "give " + EXAMPLE);
        }
    }

    private boolean startsWithByteOrderMark() {
        return bytes.byteSize() >= 3
                && bytes.get(ValueLayout.JAVA_BYTE, 0) == (byte) 0xEF
                && bytes.get(ValueLayout.JAVA_BYTE, 1) == (byte) 0xBB
                && bytes.get(ValueLayout.JAVA_BYTE, 2) == (byte) 0xBF;
    }

    private long endOfLine(long start, long line) {
        long end = start;
        while (end < bytes.byteSize() && bytes.get(ValueLayout.JAVA_BYTE, end) != '\n') {
            if (++end - start > MAX_LINE_BYTES) {
                throw broken("the line is longer than " + MAX_LINE_BYTES + " bytes", line, null);
            }
        }
        return end;
    }

    private boolean isBlank(long start, long end) {
        for (long i = start; i < end; i++) {
            byte b = bytes.get(ValueLayout.JAVA_BYTE, i);
            if (b != ' ' && b != '\t' && b != '\r') {
                return false;
            }
        }
        return true;
    }

    private void add(long start, long end, long line) {
        if (count == starts.length) {
            starts = Arrays.copyOf(starts, count * 2);
            ends = Arrays.copyOf(ends, count * 2);
            lineNumbers = Arrays.copyOf(lineNumbers, count * 2);
        }
        starts[count] = start;
        ends[count] = end;
        lineNumbers[count] = line;
        count++;
    }

    private String parse(long start, long end, long line) {
        byte[] text = bytes.asSlice(start, end - start).toArray(ValueLayout.JAVA_BYTE);
        try (JsonParser p = JSON.createParser(text)) {
            if (p.nextToken() != JsonToken.START_OBJECT) {
                throw broken("not a JSON object", line, null);
            }
            String found = null;
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String key = p.currentName();
                JsonToken value = p.nextToken();
                if (!key.equals("text")) {
                    p.skipChildren();
                } else if (value == JsonToken.VALUE_STRING) {
                    found = p.getText();
                } else {
                    throw broken("\"text\" is " + value + ", not text", line, null);
                }
            }
            if (found == null) {
                throw broken("the object has no \"text\"", line, null);
            }
            if (p.nextToken() != null) {
                throw broken("more text follows the object", line, null);
            }
            return found;
        } catch (JsonProcessingException e) {
            throw broken("not JSON: " + JsonFault.of(e, text).what(), line, e);
        } catch (IOException e) {
            throw broken("not JSON: " + e.getMessage(), line, e); // for bytes in memory: malformed UTF-8
        }
    }

    private InvalidDataException broken(String what, long line, @Nullable Throwable cause) {
        String where = path + ", line " + line;
        String fix = "give " + EXAMPLE;
        return cause == null
                ? new InvalidDataException(what, where, fix)
                : new InvalidDataException(what, where, fix, cause);
    }

    @Override
    public void close() {
        arena.close();
    }
}
