package dev.octet.quant.gptq;

import dev.octet.formats.ModelFile;
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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The second moments of a model's activations in a file, from which a run resumes bit for bit, or weights are rounded again without the
 * data.
 *
 * <p>The file is safetensors. For each activation it holds a tensor of its name, F64 {@code [size * (size + 1) / 2]}: the lower
 * triangle row by row, {@code (0,0), (1,0), (1,1), (2,0) ..} (NumPy: {@code H[numpy.tril_indices(size)]}). Its metadata has
 * {@code moments.format} = {@code octet.second-moments}, {@code moments.version} = 1, {@code moments.octet} (the version that wrote it),
 * {@code moments.rows.<name>} for each activation, and what the caller adds, such as digests of model and data.
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
     * Writes the file atomically.
     *
     * @throws IOException when it cannot be written
     */
    public void write(Path path) throws IOException {
        List<TensorSpec> specs = new ArrayList<>();
        Map<String, String> all = new LinkedHashMap<>(metadata);
        all.put(FORMAT_KEY, FORMAT);
        all.put(VERSION_KEY, VERSION);
        all.put(OCTET_KEY, OctetVersion.current());
        byName.forEach((name, moment) -> {
            specs.add(new TensorSpec(name, DType.F64, Shape.of(SecondMoment.triangleLength(moment.size()))));
            all.put(ROWS_PREFIX + name, Long.toString(moment.rows()));
        });
        SafetensorsWriter.write(path, specs, all, this::writeTriangle);
    }

    private void writeTriangle(TensorSpec spec, ByteSink sink) throws IOException {
        SecondMoment moment = byName.get(spec.name());
        if (moment == null) {
            throw new IllegalArgumentException("there is no moment '" + spec.name() + "'");
        }
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
        try (ModelFile file = ModelFile.open(path)) {
            Model model = file.model();
            checkFormat(model.metadata(), path);
            Map<String, SecondMoment> moments = new LinkedHashMap<>();
            for (Map.Entry<String, Tensor> entry : model.tensors().entrySet()) {
                moments.put(entry.getKey(), moment(entry.getKey(), entry.getValue(), model.metadata(), path));
            }
            Map<String, String> rest = new LinkedHashMap<>(model.metadata());
            rest.keySet().removeIf(key -> key.startsWith(PREFIX));
            return new SecondMoments(moments, rest);
        }
    }

    /** The moment of one activation: channels of a row, and rows that were added. */
    public record Held(int size, long rows) {}

    /**
     * What is in a file, without the moments themselves.
     *
     * @param octet version that wrote it
     * @param byName in the order of the file
     * @param metadata of the caller
     */
    public record Contents(String octet, Map<String, Held> byName, Map<String, String> metadata) {}

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
        try (ModelFile file = ModelFile.open(path)) {
            Map<String, String> metadata = file.model().metadata();
            checkFormat(metadata, path);
            Map<String, Held> held = new LinkedHashMap<>();
            file.model().tensors().forEach((name, t) -> {
                String where = path + ", tensor '" + name + "'";
                held.put(
                        name,
                        new Held(size(t.shape().elementCount(), where), rows(metadata.get(ROWS_PREFIX + name), where)));
            });
            Map<String, String> rest = new LinkedHashMap<>(metadata);
            rest.keySet().removeIf(key -> key.startsWith(PREFIX));
            return new Contents(metadata.getOrDefault(OCTET_KEY, ""), held, rest);
        }
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

    private static SecondMoment moment(String name, Tensor triangle, Map<String, String> metadata, Path path) {
        String where = path + ", tensor '" + name + "'";
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
        moment.restoreRows(rows(metadata.get(ROWS_PREFIX + name), where));
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
