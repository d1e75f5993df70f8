package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.MappedFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
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
            lines.index();
            return lines;
        } catch (IOException | RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    int count() {
        return count;
    }

    /** Text of line {@code i}, not counting blank lines. */
    String text(int i) {
        return parse(starts[i], ends[i], lineNumbers[i]);
    }

    private void index() {
        long line = 1;
        long start = startsWithByteOrderMark() ? 3 : 0;
        while (start < bytes.byteSize()) {
            long end = endOfLine(start, line);
            if (!isBlank(start, end)) {
                parse(start, end, line);
                add(start, end, line);
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
            throw broken("not JSON: " + e.getOriginalMessage(), line, e);
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
