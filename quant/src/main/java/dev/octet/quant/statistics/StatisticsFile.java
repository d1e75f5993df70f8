package dev.octet.quant.statistics;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.MappedFile;
import java.io.ByteArrayOutputStream;
import java.io.CharConversionException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * {@link Statistics} as a JSON file. Same statistics, same bytes; numbers come back to the bit.
 *
 * <pre>{@code
 * { "format": "octet-statistics", "version": 1, "octet": "0.1.0", "model": "<sha-256>",
 *   "data": [ { "digest": "<sha-256>", "name": "glosses.jsonl", "samplesDone": 256, "samplesTotal": 256 } ],
 *   "tensors": { "<value name>": { "count": 2162688, "zeros": 0, "nans": 0, "infinities": 0, "min": -3.5, "max": 11.25,
 *                                  "sumOfSquares": 311.5, "binsPerOctave": 16, "bins": [ <bin>, <count>, ... ] } } }
 * }</pre>
 *
 * <p>{@code bins} lists the bins of {@link LogHistogram} that hold something, in rising order. Fields may come in any order;
 * unknown ones are skipped, so that a later Octet may add some under the same version; what changes the meaning of a field
 * gets a new version, and an Octet that does not know it refuses the file.
 */
public final class StatisticsFile {
    /** The version this Octet writes, and the highest it reads. */
    public static final int VERSION = 1;

    /** Larger files are refused: 100 000 tensors with 100 bins each take about 100 MB. */
    public static final long MAX_BYTES = 512L << 20;

    private static final String FORMAT = "octet-statistics";
    /** Bytes within which the format is named. */
    private static final int HEAD = 256;

    private static final JsonFactory JSON = JsonFactory.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .streamReadConstraints(
                    StreamReadConstraints.builder().maxNestingDepth(16).build())
            .build();

    private StatisticsFile() {}

    /**
     * Writes the file whole or not at all.
     *
     * @throws IOException when there is no space or no permission; what was there before is still there
     */
    public static void write(Statistics statistics, Path path) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JsonGenerator g = JSON.createGenerator(bytes)) {
            g.writeStartObject();
            g.writeStringField("format", FORMAT);
            g.writeNumberField("version", VERSION);
            g.writeStringField("octet", statistics.octetVersion());
            g.writeStringField("model", statistics.modelDigest());
            g.writeArrayFieldStart("data");
            for (DataPart part : statistics.data()) {
                writePart(g, part);
            }
            g.writeEndArray();
            g.writeObjectFieldStart("tensors");
            for (Map.Entry<String, TensorStatistics> e : statistics.tensors().entrySet()) {
                g.writeRaw('\n'); // one tensor a line: a diff of two files can be read
                g.writeFieldName(e.getKey());
                writeTensor(g, e.getValue());
            }
            g.writeEndObject();
            g.writeEndObject();
            g.writeRaw('\n');
        }
        try (AtomicFile file = AtomicFile.create(path)) {
            file.write(ByteBuffer.wrap(bytes.toByteArray()));
            file.commit();
        }
    }

    private static void writePart(JsonGenerator g, DataPart part) throws IOException {
        g.writeStartObject();
        g.writeStringField("digest", part.digest());
        g.writeStringField("name", part.name());
        g.writeNumberField("samplesDone", part.samplesDone());
        g.writeNumberField("samplesTotal", part.samplesTotal());
        g.writeEndObject();
    }

    private static void writeTensor(JsonGenerator g, TensorStatistics t) throws IOException {
        g.writeStartObject();
        g.writeNumberField("count", t.count());
        g.writeNumberField("zeros", t.zeros());
        g.writeNumberField("nans", t.nans());
        g.writeNumberField("infinities", t.infinities());
        g.writeNumberField("min", t.min());
        g.writeNumberField("max", t.max());
        g.writeNumberField("sumOfSquares", t.sumOfSquares());
        g.writeNumberField("binsPerOctave", LogHistogram.BINS_PER_OCTAVE);
        g.writeArrayFieldStart("bins");
        for (int b = Math.max(0, t.histogram().firstBin()); b <= t.histogram().lastBin(); b++) {
            if (t.histogram().count(b) != 0) {
                g.writeNumber(b);
                g.writeNumber(t.histogram().count(b));
            }
        }
        g.writeEndArray();
        g.writeEndObject();
    }

    /**
     * Whether a file begins as those that {@link #write} writes.
     *
     * @throws IOException when it cannot be read
     */
    public static boolean isOne(Path path) throws IOException {
        String head = new String(MappedFile.head(path, HEAD), StandardCharsets.ISO_8859_1).strip();
        return head.startsWith("{") && head.contains('"' + FORMAT + '"');
    }

    /**
     * Reads a file.
     *
     * @throws InvalidDataException when it is not a statistics file, contradicts itself, or is of a later version
     * @throws IOException when it cannot be read
     */
    public static Statistics read(Path path) throws IOException {
        long size = Files.size(path);
        if (size > MAX_BYTES) {
            throw new InvalidDataException(
                    "a statistics file has at most " + MAX_BYTES + " bytes, this one has " + size,
                    path.toString(),
                    "give a file that `octet calibrate` wrote");
        }
        try (InputStream in = Files.newInputStream(path);
                JsonParser p = JSON.createParser(in)) {
            return new Reader(p, path).read();
        } catch (JsonProcessingException e) {
            JsonLocation at = e.getLocation(); // null where a limit is passed
            throw unreadable(
                    e.getOriginalMessage(),
                    path + (at == null ? "" : ", line " + at.getLineNr() + ", column " + at.getColumnNr()),
                    e);
        } catch (CharConversionException e) { // let out by Jackson as it is: bytes that look like UTF-32 and are none
            throw unreadable(e.getMessage(), path.toString(), e);
        } catch (IllegalArgumentException | ArithmeticException e) {
            // the records check themselves; a file that breaks their rules was damaged or made by hand
            throw new InvalidDataException(
                    "the statistics contradict themselves: " + e.getMessage(),
                    path.toString(),
                    "take the statistics again with `octet calibrate`",
                    e);
        }
    }

    private static InvalidDataException unreadable(@Nullable String why, String where, IOException cause) {
        return new InvalidDataException(
                "not a statistics file: " + why, where, "take the statistics again with `octet calibrate`", cause);
    }

    /** One pass over the tokens. */
    private static final class Reader {
        private final JsonParser p;
        private final Path path;
        private String format = "";
        private int version = -1;
        private String octet = "";
        private String model = "";
        private final List<DataPart> data = new ArrayList<>();
        private final Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        /** The tensor being read, for messages; empty outside. */
        private String place = "";

        Reader(JsonParser p, Path path) {
            this.p = p;
            this.path = path;
        }

        Statistics read() throws IOException {
            p.nextToken();
            require(JsonToken.START_OBJECT, "the file");
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String field = p.currentName();
                p.nextToken();
                switch (field) {
                    case "format" -> format = text(field);
                    case "version" -> readVersion(field);
                    case "octet" -> octet = text(field);
                    case "model" -> model = text(field);
                    case "data" -> readData();
                    case "tensors" -> readTensors();
                    default -> p.skipChildren();
                }
            }
            if (!format.equals(FORMAT)) {
                throw broken("'format' must be \"" + FORMAT + "\"");
            }
            if (version < 1) {
                throw broken("'version' is missing");
            }
            if (p.nextToken() != null) {
                throw broken("something follows the object");
            }
            return new Statistics(octet, model, data, tensors);
        }

        private void readVersion(String field) throws IOException {
            long v = integer(field);
            if (v > VERSION) {
                throw new InvalidDataException(
                        "the statistics are of version " + v + ", this Octet knows up to " + VERSION,
                        path.toString(),
                        "use the Octet that wrote the file, or a later one, or take the statistics again");
            }
            version = Math.toIntExact(v);
        }

        private void readData() throws IOException {
            require(JsonToken.START_ARRAY, "'data'");
            while (p.nextToken() == JsonToken.START_OBJECT) {
                String digest = "";
                String name = "";
                long done = -1;
                long total = -1;
                while (p.nextToken() == JsonToken.FIELD_NAME) {
                    String field = p.currentName();
                    p.nextToken();
                    switch (field) {
                        case "digest" -> digest = text(field);
                        case "name" -> name = text(field);
                        case "samplesDone" -> done = integer(field);
                        case "samplesTotal" -> total = integer(field);
                        default -> p.skipChildren();
                    }
                }
                data.add(new DataPart(digest, name, done, total));
            }
            require(JsonToken.END_ARRAY, "an entry of 'data'");
        }

        private void readTensors() throws IOException {
            require(JsonToken.START_OBJECT, "'tensors'");
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                place = p.currentName();
                p.nextToken();
                tensors.put(place, readTensor());
            }
            place = "";
        }

        private TensorStatistics readTensor() throws IOException {
            require(JsonToken.START_OBJECT, "a tensor");
            long count = -1;
            long zeros = -1;
            long nans = -1;
            long infinities = -1;
            double min = Double.NaN;
            double max = Double.NaN;
            double squares = Double.NaN;
            long resolution = -1;
            LogHistogram histogram = LogHistogram.EMPTY;
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String field = p.currentName();
                p.nextToken();
                switch (field) {
                    case "count" -> count = integer(field);
                    case "zeros" -> zeros = integer(field);
                    case "nans" -> nans = integer(field);
                    case "infinities" -> infinities = integer(field);
                    case "min" -> min = real(field);
                    case "max" -> max = real(field);
                    case "sumOfSquares" -> squares = real(field);
                    case "binsPerOctave" -> resolution = integer(field);
                    case "bins" -> histogram = bins();
                    default -> p.skipChildren();
                }
            }
            if (resolution != LogHistogram.BINS_PER_OCTAVE) {
                throw broken("'binsPerOctave' is " + resolution + ", not " + LogHistogram.BINS_PER_OCTAVE);
            }
            if (min != (float) min || max != (float) max) { // NaN (a missing field) is unequal too
                throw broken("'min' or 'max' is missing or no F32 number: " + min + ", " + max);
            }
            return new TensorStatistics(count, zeros, nans, infinities, (float) min, (float) max, squares, histogram);
        }

        private LogHistogram bins() throws IOException {
            require(JsonToken.START_ARRAY, "'bins'");
            long[] counts = new long[LogHistogram.BIN_COUNT];
            long last = -1;
            while (p.nextToken() != JsonToken.END_ARRAY) {
                long bin = integer("bins");
                p.nextToken();
                long n = integer("bins");
                if (bin <= last || bin >= counts.length || n < 1) {
                    throw broken("'bins' after bin " + last + ": bin " + bin + " with count " + n
                            + "; bins rise and lie in 0.." + (counts.length - 1) + ", counts are positive");
                }
                counts[(int) bin] = n;
                last = bin;
            }
            return LogHistogram.of(counts);
        }

        private String text(String field) throws IOException {
            require(JsonToken.VALUE_STRING, "'" + field + "'");
            return p.getText();
        }

        private long integer(String field) throws IOException {
            require(JsonToken.VALUE_NUMBER_INT, "'" + field + "'");
            return p.getLongValue(); // refuses what does not fit
        }

        private double real(String field) throws IOException {
            if (p.currentToken() != JsonToken.VALUE_NUMBER_INT) {
                require(JsonToken.VALUE_NUMBER_FLOAT, "'" + field + "'");
            }
            // Octet writes min and max as the shortest text of an F32; parsed as a double it would be another number
            return field.equals("sumOfSquares") ? p.getDoubleValue() : p.getFloatValue();
        }

        private void require(JsonToken wanted, String what) {
            JsonToken token = p.currentToken();
            if (token != wanted) {
                throw broken(what + ": expected " + wanted + ", found " + token);
            }
        }

        private InvalidDataException broken(String what) {
            return new InvalidDataException(
                    "not a statistics file: " + what,
                    path + (place.isEmpty() ? "" : ", tensor '" + place + "'") + ", line "
                            + p.currentLocation().getLineNr(),
                    "take the statistics again with `octet calibrate`");
        }
    }
}
