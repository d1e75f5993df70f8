package dev.octet.trainer.data;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.npy.NpzFile;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Samples from arrays named like the graph's inputs and labels; the first axis of each is the sample axis. A {@code .safetensors} file is
 * mapped; a {@code .npz} file is read into memory, because rows are accessed in random order.
 */
public final class ArraySamples implements Samples {
    private final String name;
    private final String digest;
    private final Map<String, Tensor> arrays;
    private final long count;
    private final AutoCloseable owner;

    private ArraySamples(String name, String digest, Map<String, Tensor> arrays, long count, AutoCloseable owner) {
        this.name = name;
        this.digest = digest;
        this.arrays = arrays;
        this.count = count;
        this.owner = owner;
    }

    /**
     * Opens a {@code .npz} file.
     *
     * @throws InvalidDataException when an array is missing or has the wrong type or shape, or the arrays have no samples or different
     *     numbers of them
     * @throws IOException when the file cannot be read
     */
    public static ArraySamples npz(Path path, Feed feed) throws IOException {
        Arena arena = Arena.ofShared();
        boolean opened = false;
        try (NpzFile file = NpzFile.open(path)) {
            checkNames(file.names(), feed, path);
            Map<String, Tensor> arrays = new LinkedHashMap<>();
            for (String name : feed.needed(file.names())) {
                arrays.put(name, file.read(name, arena));
            }
            ArraySamples samples = of(path, arrays, feed, arena);
            opened = true;
            return samples;
        } finally {
            if (!opened) {
                arena.close();
            }
        }
    }

    /** Opens a {@code .safetensors} file; throws the same exceptions as {@link #npz}. */
    public static ArraySamples safetensors(Path path, Feed feed) throws IOException {
        ModelFile file = ModelFile.open(path);
        boolean opened = false;
        try {
            Map<String, Tensor> all = file.model().tensors();
            checkNames(all.keySet(), feed, path);
            Map<String, Tensor> arrays = new LinkedHashMap<>();
            feed.needed(all.keySet())
                    .forEach(name -> arrays.put(name, file.model().tensor(name)));
            ArraySamples samples = of(path, arrays, feed, file);
            opened = true;
            return samples;
        } finally {
            if (!opened) {
                file.close();
            }
        }
    }

    private static ArraySamples of(Path path, Map<String, Tensor> there, Feed feed, AutoCloseable owner)
            throws IOException {
        Map<String, Tensor> arrays = Feed.withTokenTypes(there, feed.inputs());
        long count = -1;
        for (Tensor array : arrays.values()) {
            if (array.shape().rank() == 0) {
                throw broken("the array " + array.spec() + " has no sample axis", path, "give it one row per sample");
            }
            long rows = array.shape().dim(0);
            if (count >= 0 && rows != count) {
                throw broken(
                        "array '" + array.name() + "' has " + rows + " samples, the previous array " + count,
                        path,
                        "give every array one row per sample");
            }
            count = rows;
        }
        if (count < 1) {
            throw broken("there are no samples", path, "give arrays with at least one row");
        }
        for (ValueInfo input : feed.inputs()) {
            check(arrays.get(input.name()), input, path);
        }
        return new ArraySamples(String.valueOf(path.getFileName()), Sha256.of(path), arrays, count, owner);
    }

    private static void checkNames(Set<String> names, Feed feed, Path path) {
        TreeSet<String> missing = new TreeSet<>(feed.needed(names));
        missing.removeAll(names);
        if (!missing.isEmpty()) {
            throw broken(
                    "the data lacks the arrays " + missing + "; it has " + new TreeSet<>(names),
                    path,
                    "name the arrays like the model's inputs and the labels: " + feed.names());
        }
    }

    private static void check(@Nullable Tensor array, ValueInfo input, Path path) {
        if (array == null) {
            throw new IllegalStateException("names were checked");
        }
        DType dtype = Feed.dtype(input);
        List<Dim> dims = Feed.dims(input);
        if (dtype != null && dtype != array.dtype()) {
            throw unfit(array, input, path, "convert it: x.astype(...)");
        }
        if (dims == null) {
            return;
        }
        if (dims.size() != array.shape().rank()) {
            throw unfit(array, input, path, "use the model's rank, with the sample axis first");
        }
        for (int axis = 1; axis < dims.size(); axis++) {
            Long size = dims.get(axis).size();
            if (size != null && size != array.shape().dim(axis)) {
                throw unfit(array, input, path, "axis " + axis + " must be " + size);
            }
        }
    }

    private static InvalidDataException unfit(Tensor array, ValueInfo input, Path path, String fix) {
        return broken(
                "the array " + array.spec() + " does not fit the input " + input.name() + " " + input.type(),
                path,
                fix);
    }

    private static InvalidDataException broken(String what, Path path, String fix) {
        return new InvalidDataException(what, path.toString(), fix);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public long count() {
        return count;
    }

    @Override
    public String digest() {
        return digest;
    }

    @Override
    public Map<String, Tensor> gather(long[] rows, Arena arena) {
        Map<String, Tensor> batch = new LinkedHashMap<>();
        arrays.forEach((array, tensor) -> batch.put(array, gather(tensor, rows, arena)));
        return batch;
    }

    private Tensor gather(Tensor array, long[] rows, Arena arena) {
        long[] dims = array.shape().toArray();
        dims[0] = rows.length;
        Tensor batch = Tensor.allocate(arena, new TensorSpec(array.name(), array.dtype(), Shape.of(dims)));
        long rowBytes = array.bytes().byteSize() / count;
        for (int i = 0; i < rows.length; i++) {
            MemorySegment.copy(array.bytes(), rows[i] * rowBytes, batch.bytes(), i * rowBytes, rowBytes);
            if (array.dtype() == DType.F32) {
                requireNumbers(batch, i * rowBytes, rowBytes, rows[i]);
            }
        }
        return batch;
    }

    private void requireNumbers(Tensor batch, long from, long bytes, long row) {
        for (long at = from; at < from + bytes; at += Float.BYTES) {
            float x = batch.bytes().get(Tensor.F32_LE, at);
            if (!Float.isFinite(x)) {
                throw new InvalidDataException(
                        "sample " + row + " of array '" + batch.name() + "' has the value " + x + " at element "
                                + (at - from) / Float.BYTES,
                        name,
                        "fix or remove the sample: a single such value would corrupt all weights");
            }
        }
    }

    @Override
    public void close() throws IOException {
        try {
            owner.close();
        } catch (IOException | RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IOException(e);
        }
    }
}
