package dev.octet.quant.gptq;

import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.model.Model;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The second moments of a model's activations in a file, from which a run resumes bit for bit, or weights are rounded again without the
 * data.
 *
 * <p>{@link SecondMomentsFile} reads one moment at a time, for files that are larger than memory.
 *
 * <p>The file is safetensors. For each activation it holds a tensor of its name, F64 {@code [size * (size + 1) / 2]}: the lower
 * triangle row by row, {@code (0,0), (1,0), (1,1), (2,0) ..} (NumPy: {@code H[numpy.tril_indices(size)]}). Its metadata has
 * {@code moments.format} = {@code octet.second-moments}, {@code moments.version} = 1, {@code moments.octet} (the version that wrote it),
 * {@code moments.rows.<name>} for each activation, {@code moments.same.<name>} = another activation for each one that has no tensor because it
 * is the same value under a second name (Linears that share an input), and what the caller adds, such as digests of model and data.
 *
 * @param byName moments by the name of the activation
 * @param metadata of the caller; keys must not start with {@code moments.}
 */
public record SecondMoments(Map<String, SecondMoment> byName, Map<String, String> metadata) {
    private static final String PREFIX = "moments.";
    private static final String FORMAT_KEY = PREFIX + "format";
    private static final String FORMAT = "octet.second-moments";
    private static final String VERSION_KEY = PREFIX + "version";
    private static final String VERSION = "1";
    private static final String OCTET_KEY = PREFIX + "octet";
    private static final String ROWS_PREFIX = PREFIX + "rows.";
    private static final String SAME_PREFIX = PREFIX + "same.";
    private static final String FIX = "take the moments again from the model and its data";

    public SecondMoments {
        byName = Collections.unmodifiableMap(new LinkedHashMap<>(byName));
        metadata = Collections.unmodifiableMap(new LinkedHashMap<>(metadata));
        for (String key : metadata.keySet()) {
            if (key.startsWith(PREFIX)) {
                throw new IllegalArgumentException("metadata key '" + key + "' is one of the format's own");
            }
        }
    }

    /**
     * Writes the file atomically. A moment with several names is written once.
     *
     * @throws IOException when it cannot be written
     */
    public void write(Path path) throws IOException {
        Map<String, Held> held = new LinkedHashMap<>();
        Map<String, String> same = new LinkedHashMap<>();
        IdentityHashMap<SecondMoment, String> names = new IdentityHashMap<>();
        byName.forEach((name, moment) -> {
            String first = names.putIfAbsent(moment, name);
            if (first == null) {
                held.put(name, new Held(moment.size(), moment.rows()));
            } else {
                same.put(name, first);
            }
        });
        write(path, new Contents(OctetVersion.current(), held, same, metadata), name -> {
            SecondMoment moment = byName.get(name);
            if (moment == null) {
                throw new IllegalArgumentException("there is no moment '" + name + "'");
            }
            return moment;
        });
    }

    /** Gives moments one at a time, in any order. */
    @FunctionalInterface
    public interface Source {
        /** The moment of an activation that has one of its own. */
        SecondMoment moment(String name) throws IOException;
    }

    /**
     * Writes a file atomically with one moment in memory at a time.
     *
     * @param contents what there is; its version is not written, the running one is
     * @throws IOException when it cannot be written, or from {@code source}
     */
    public static void write(Path path, Contents contents, Source source) throws IOException {
        List<TensorSpec> specs = new ArrayList<>();
        Map<String, String> all = new LinkedHashMap<>(contents.metadata());
        all.put(FORMAT_KEY, FORMAT);
        all.put(VERSION_KEY, VERSION);
        all.put(OCTET_KEY, OctetVersion.current());
        contents.byName().forEach((name, moment) -> {
            specs.add(new TensorSpec(name, DType.F64, Shape.of(SecondMoment.triangleLength(moment.size()))));
            all.put(ROWS_PREFIX + name, Long.toString(moment.rows()));
        });
        contents.same().forEach((name, first) -> all.put(SAME_PREFIX + name, first));
        SafetensorsWriter.write(path, specs, all, (spec, sink) -> writeTriangle(source.moment(spec.name()), sink));
    }

    private static void writeTriangle(SecondMoment moment, ByteSink sink) throws IOException {
        double[] row = new double[moment.size()];
        MemorySegment bytes = MemorySegment.ofArray(new byte[row.length * Double.BYTES]);
        for (int i = 0; i < row.length; i++) {
            moment.copyRow(i, row);
            MemorySegment.copy(row, 0, bytes, Tensor.F64_LE, 0, i + 1);
            sink.write(bytes.asSlice(0, (i + 1L) * Double.BYTES));
        }
    }

    /**
     * Reads a file.
     *
     * @throws InvalidDataException when the file has no second moments, has a later version, or contradicts itself
     * @throws dev.octet.formats.error.OctetException when the format is unknown or the file breaks a rule of safetensors
     * @throws IOException when it cannot be read
     */
    public static SecondMoments read(Path path) throws IOException {
        try (SecondMomentsFile file = SecondMomentsFile.open(path)) {
            Map<String, SecondMoment> moments = new LinkedHashMap<>();
            for (String name : file.contents().byName().keySet()) {
                moments.put(name, file.read(name));
            }
            file.contents()
                    .same()
                    .forEach((name, first) -> moments.put(name, Objects.requireNonNull(moments.get(first))));
            return new SecondMoments(moments, file.contents().metadata());
        }
    }

    /** The moment of one activation: channels of a row, and rows that were added. */
    public record Held(int size, long rows) {}

    /**
     * What is in a file, without the moments themselves.
     *
     * @param octet version that wrote it
     * @param byName in the order of the file
     * @param same further names: the activation that has the same moment, by name
     * @param metadata of the caller
     */
    public record Contents(
            String octet, Map<String, Held> byName, Map<String, String> same, Map<String, String> metadata) {
        public Contents {
            byName = Collections.unmodifiableMap(new LinkedHashMap<>(byName));
            same = Collections.unmodifiableMap(new LinkedHashMap<>(same));
            metadata = Collections.unmodifiableMap(new LinkedHashMap<>(metadata));
        }
    }

    /** Whether a safetensors file with this metadata holds second moments. */
    public static boolean isNamed(Map<String, String> metadata) {
        return FORMAT.equals(metadata.get(FORMAT_KEY));
    }

    /**
     * Reads what a file holds; as {@link #read}, but of the tensors only their headers.
     *
     * @throws InvalidDataException as {@link #read}
     * @throws IOException when it cannot be read
     */
    public static Contents contents(Path path) throws IOException {
        try (SecondMomentsFile file = SecondMomentsFile.open(path)) {
            return file.contents();
        }
    }

    static Contents contents(Model model, Path path) {
        Map<String, String> metadata = model.metadata();
        checkFormat(metadata, path);
        Map<String, Held> held = new LinkedHashMap<>();
        model.tensors().forEach((name, t) -> {
            String where = where(path, name);
            held.put(
                    name,
                    new Held(size(t.shape().elementCount(), where), rows(metadata.get(ROWS_PREFIX + name), where)));
        });
        Map<String, String> same = new TreeMap<>();
        Map<String, String> rest = new LinkedHashMap<>();
        metadata.forEach((key, value) -> {
            if (key.startsWith(SAME_PREFIX)) {
                String name = key.substring(SAME_PREFIX.length());
                if (held.containsKey(name) || !held.containsKey(value)) {
                    throw new InvalidDataException(
                            "'" + name + "' is said to have the moment of '" + value
                                    + "', which the file does not hold so",
                            path.toString(),
                            FIX);
                }
                same.put(name, value);
            } else if (!key.startsWith(PREFIX)) {
                rest.put(key, value);
            }
        });
        return new Contents(metadata.getOrDefault(OCTET_KEY, ""), held, same, rest);
    }

    static String where(Path path, String name) {
        return path + ", tensor '" + name + "'";
    }

    private static void checkFormat(Map<String, String> metadata, Path path) {
        if (!FORMAT.equals(metadata.get(FORMAT_KEY))) {
            throw new InvalidDataException(
                    "not a file of second moments: its metadata lacks " + FORMAT_KEY + " = " + FORMAT,
                    path.toString(),
                    "give a file of second moments that Octet wrote");
        }
        if (!VERSION.equals(metadata.get(VERSION_KEY))) {
            throw new InvalidDataException(
                    "the moments are of version " + metadata.get(VERSION_KEY) + ", this Octet knows " + VERSION,
                    path.toString(),
                    "use the Octet that wrote the file (" + metadata.get(OCTET_KEY) + "), or " + FIX);
        }
    }

    static SecondMoment moment(Tensor triangle, long rows, String where) {
        if (triangle.dtype() != DType.F64 || triangle.shape().rank() != 1) {
            throw new InvalidDataException(triangle.spec() + " is not F64 of rank 1", where, FIX);
        }
        SecondMoment moment = new SecondMoment(size(triangle.shape().elementCount(), where));
        double[] row = new double[moment.size()];
        for (int i = 0; i < row.length; i++) {
            long offset = SecondMoment.triangleLength(i) * Double.BYTES;
            MemorySegment.copy(triangle.bytes(), Tensor.F64_LE, offset, row, 0, i + 1);
            if (row[i] < 0) {
                throw new InvalidDataException("sum of squares " + i + " is " + row[i], where, FIX);
            }
            moment.restoreRow(i, row);
        }
        moment.restoreRows(rows);
        return moment;
    }

    private static int size(long length, String where) {
        long size = (long) ((Math.sqrt(8.0 * length + 1) - 1) / 2);
        if (size < 1 || size > SecondMoment.MAX_SIZE || SecondMoment.triangleLength(size) != length) {
            throw new InvalidDataException(length + " elements are not a triangle of a square matrix", where, FIX);
        }
        return (int) size;
    }

    private static long rows(@Nullable String text, String where) {
        if (text == null || !text.matches("\\d{1,18}")) {
            throw new InvalidDataException("the number of rows is " + text, where + ", metadata " + ROWS_PREFIX, FIX);
        }
        return Long.parseLong(text);
    }
}
