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
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
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
 * <p>A tensor may also have {@code "negativeBins"}, the part of {@code bins} that lies below zero, and {@code "channels"} and {@code "heads"}: {@code
 * { "count": <elements of each>, "min": "<F32>", "max": "<F32>", "sum": "<F64>", "sumOfMagnitudes": "<F64>", "sumOfSquares": "<F64>" }}, each
 * an array over the channels or heads, little-endian in base64; or a number: the same as the object that came as that one in the file, from 0.
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
            Map<ChannelStatistics, Integer> written = new HashMap<>();
            for (Map.Entry<String, TensorStatistics> e : statistics.tensors().entrySet()) {
                g.writeRaw('\n'); // one tensor a line: a diff of two files can be read
                g.writeFieldName(e.getKey());
                writeTensor(g, e.getValue(), written);
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

    private static void writeTensor(JsonGenerator g, TensorStatistics t, Map<ChannelStatistics, Integer> written)
            throws IOException {
        g.writeStartObject();
        g.writeNumberField("count", t.count());
        g.writeNumberField("zeros", t.zeros());
        g.writeNumberField("nans", t.nans());
        g.writeNumberField("infinities", t.infinities());
        g.writeNumberField("min", t.min());
        g.writeNumberField("max", t.max());
        g.writeNumberField("sumOfSquares", t.sumOfSquares());
        g.writeNumberField("binsPerOctave", LogHistogram.BINS_PER_OCTAVE);
        writeBins(g, "bins", t.histogram());
        LogHistogram negatives = t.negatives();
        if (negatives != null) {
            writeBins(g, "negativeBins", negatives);
        }
        writeChannels(g, "channels", t.channels(), written);
        writeChannels(g, "heads", t.heads(), written);
        g.writeEndObject();
    }

    private static void writeBins(JsonGenerator g, String field, LogHistogram histogram) throws IOException {
        g.writeArrayFieldStart(field);
        for (int b = Math.max(0, histogram.firstBin()); b <= histogram.lastBin(); b++) {
            if (histogram.count(b) != 0) {
                g.writeNumber(b);
                g.writeNumber(histogram.count(b));
            }
        }
        g.writeEndArray();
    }

    /** Writes the numbers, or the number of equal ones that were written before: Linears often share an input. */
    private static void writeChannels(
            JsonGenerator g,
            String field,
            @Nullable ChannelStatistics channels,
            Map<ChannelStatistics, Integer> written)
            throws IOException {
        if (channels == null) {
            return;
        }
        Integer before = written.putIfAbsent(channels, written.size());
        if (before != null) {
            g.writeNumberField(field, before);
            return;
        }
        g.writeObjectFieldStart(field);
        g.writeNumberField("count", channels.count());
        writeFloats(g, "min", channels.minima());
        writeFloats(g, "max", channels.maxima());
        ChannelStatistics.Sums sums = channels.sums();
        writeDoubles(g, "sum", sums.ofValues());
        writeDoubles(g, "sumOfMagnitudes", sums.ofMagnitudes());
        writeDoubles(g, "sumOfSquares", sums.ofSquares());
        g.writeEndObject();
    }

    private static void writeFloats(JsonGenerator g, String field, float[] numbers) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(numbers.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asFloatBuffer().put(numbers);
        g.writeBinaryField(field, bytes.array());
    }

    private static void writeDoubles(JsonGenerator g, String field, double[] numbers) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(numbers.length * Double.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asDoubleBuffer().put(numbers);
        g.writeBinaryField(field, bytes.array());
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
        /** In the order of the file. */
        private final List<ChannelStatistics> channels = new ArrayList<>();

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
            LogHistogram negatives = null;
            ChannelStatistics ofChannels = null;
            ChannelStatistics ofHeads = null;
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
                    case "bins" -> histogram = bins(field);
                    case "negativeBins" -> negatives = bins(field);
                    case "channels" -> ofChannels = channels(field);
                    case "heads" -> ofHeads = channels(field);
                    default -> p.skipChildren();
                }
            }
            if (resolution != LogHistogram.BINS_PER_OCTAVE) {
                throw broken("'binsPerOctave' is " + resolution + ", not " + LogHistogram.BINS_PER_OCTAVE);
            }
            if (min != (float) min || max != (float) max) { // NaN (a missing field) is unequal too
                throw broken("'min' or 'max' is missing or no F32 number: " + min + ", " + max);
            }
            return new TensorStatistics(
                    count,
                    zeros,
                    nans,
                    infinities,
                    (float) min,
                    (float) max,
                    squares,
                    histogram,
                    negatives,
                    ofChannels,
                    ofHeads);
        }

        private ChannelStatistics channels(String name) throws IOException {
            if (p.currentToken() == JsonToken.VALUE_NUMBER_INT) {
                long before = integer(name);
                if (before < 0 || before >= channels.size()) {
                    throw broken("'" + name + "' is " + before + ", and " + channels.size() + " came before");
                }
                return channels.get((int) before);
            }
            require(JsonToken.START_OBJECT, "'" + name + "'");
            long count = -1;
            float[] min = {};
            float[] max = {};
            double[] sums = {};
            double[] magnitudes = {};
            double[] squares = {};
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String field = p.currentName();
                p.nextToken();
                switch (field) {
                    case "count" -> count = integer(field);
                    case "min" -> min = floats(field);
                    case "max" -> max = floats(field);
                    case "sum" -> sums = doubles(field);
                    case "sumOfMagnitudes" -> magnitudes = doubles(field);
                    case "sumOfSquares" -> squares = doubles(field);
                    default -> p.skipChildren();
                }
            }
            ChannelStatistics read =
                    ChannelStatistics.of(count, min, max, new ChannelStatistics.Sums(sums, magnitudes, squares));
            channels.add(read);
            return read;
        }

        private float[] floats(String field) throws IOException {
            ByteBuffer bytes = bytes(field, Float.BYTES);
            float[] numbers = new float[bytes.remaining() / Float.BYTES];
            bytes.asFloatBuffer().get(numbers);
            return numbers;
        }

        private double[] doubles(String field) throws IOException {
            ByteBuffer bytes = bytes(field, Double.BYTES);
            double[] numbers = new double[bytes.remaining() / Double.BYTES];
            bytes.asDoubleBuffer().get(numbers);
            return numbers;
        }

        private ByteBuffer bytes(String field, int width) throws IOException {
            require(JsonToken.VALUE_STRING, "'" + field + "'");
            byte[] bytes = p.getBinaryValue();
            if (bytes.length % width != 0) {
                throw broken("'" + field + "' has " + bytes.length + " bytes, not whole numbers of " + width);
            }
            return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        }

        private LogHistogram bins(String name) throws IOException {
            require(JsonToken.START_ARRAY, "'" + name + "'");
            long[] counts = new long[LogHistogram.BIN_COUNT];
            long last = -1;
            while (p.nextToken() != JsonToken.END_ARRAY) {
                long bin = integer(name);
                p.nextToken();
                long n = integer(name);
                if (bin <= last || bin >= counts.length || n < 1) {
                    throw broken("'" + name + "' after bin " + last + ": bin " + bin + " with count " + n
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
