package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.npy.NpyReader;
import dev.octet.formats.npy.NpzFile;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.TreeSet;

/**
 * Arrays of a {@code .npz} file, one for each input of the model, with its name; the first axis of each counts the samples. Arrays are read
 * row by row, batch after batch: memory holds one batch.
 *
 * <p>The array of an input that is a single number (rank 0, for example a sampling rate) has rank 0 (one number for all samples) or rank 1
 * (one number per sample). If these numbers differ, a batch is one sample.
 */
public final class NpzDataset implements Dataset {
    private final Path path;
    private final NpzFile file;
    private final String digest;
    private final List<InputSpec> inputs;
    private final int count;
    /** Single numbers by input: rank 0 for all samples, rank 1 for one per sample. */
    private final Map<String, Tensor> numbers;
    /** One reader per input, positioned at the row after the last batch, because batches mostly come in order. */
    private final Map<String, NpyReader> readers = new LinkedHashMap<>();

    private NpzDataset(
            Path path, NpzFile file, String digest, List<InputSpec> inputs, Map<String, Tensor> numbers, int count) {
        this.path = path;
        this.file = file;
        this.digest = digest;
        this.inputs = List.copyOf(inputs);
        this.numbers = numbers;
        this.count = count;
    }

    /**
     * Opens arrays for a model.
     *
     * @throws InvalidDataException when an array is missing or superfluous, its type, rank or size does not fit the model, the arrays have
     *     different numbers of samples or none, or the file is not an .npz
     * @throws IOException when the file cannot be read
     */
    public static NpzDataset open(Path path, List<InputSpec> inputs) throws IOException {
        NpzFile file = NpzFile.open(path);
        try {
            checkNames(file, path, inputs);
            long count = -1;
            String counted = "";
            Map<String, Tensor> numbers = new LinkedHashMap<>();
            for (InputSpec input : inputs) {
                TensorSpec array = file.spec(input.name());
                check(array, input, path);
                if (array.shape().rank() == 0 || isNumber(input)) {
                    numbers.put(input.name(), file.read(input.name(), Arena.ofAuto()));
                }
                if (array.shape().rank() == 0) {
                    continue; // one number for all samples
                }
                long samples = array.shape().dim(0);
                if (count >= 0 && samples != count) {
                    throw new InvalidDataException(
                            "array '" + counted + "' has " + count + " samples, array '" + input.name() + "' has "
                                    + samples,
                            path.toString(),
                            "give every array one row per sample");
                }
                count = samples;
                counted = input.name();
            }
            // only rank-0 numbers: one sample
            int samples = checkedCount(count < 0 && !numbers.isEmpty() ? 1 : count, path);
            return new NpzDataset(path, file, Sha256.of("npz", Sha256.of(path)), inputs, numbers, samples);
        } catch (IOException | RuntimeException e) {
            file.close();
            throw e;
        }
    }

    private static void checkNames(NpzFile file, Path path, List<InputSpec> inputs) {
        List<String> wanted = inputs.stream().map(InputSpec::name).toList();
        TreeSet<String> missing = new TreeSet<>(wanted);
        missing.removeAll(file.names());
        TreeSet<String> extra = new TreeSet<>(file.names());
        wanted.forEach(extra::remove);
        if (!missing.isEmpty() || !extra.isEmpty()) {
            List<String> what = new ArrayList<>();
            if (!missing.isEmpty()) {
                what.add("has no array " + missing);
            }
            if (!extra.isEmpty()) {
                what.add("has array " + extra + ", which the model does not take");
            }
            throw new InvalidDataException(
                    "the data " + String.join(" and ", what),
                    path.toString(),
                    "name the arrays as the model's inputs: " + wanted);
        }
    }

    private static void check(TensorSpec array, InputSpec input, Path path) {
        if (input.dtype() != null && input.dtype() != array.dtype()) {
            throw unfit(array, input, path, "convert it: x.astype(...)");
        }
        int rank = array.shape().rank();
        if (isNumber(input)) {
            if (rank > 1) {
                throw unfit(array, input, path, "give it one number for all samples, or one for each");
            }
            return;
        }
        if (input.dims() != null && input.dims().size() != rank) {
            throw unfit(array, input, path, "give it the model's rank, samples first");
        }
        for (int axis = 1; axis < array.shape().rank(); axis++) {
            OptionalLong fixed = input.fixed(axis);
            if (fixed.isPresent() && fixed.getAsLong() != array.shape().dim(axis)) {
                throw unfit(array, input, path, "axis " + axis + " must be " + fixed.getAsLong());
            }
        }
    }

    /** Whether the model takes one number for the whole batch. */
    private static boolean isNumber(InputSpec input) {
        return input.dims() != null && input.dims().isEmpty();
    }

    private static InvalidDataException unfit(TensorSpec array, InputSpec input, Path path, String fix) {
        return new InvalidDataException(
                "the array " + array + " does not fit the input " + input, path.toString(), fix);
    }

    private static int checkedCount(long count, Path path) {
        if (count < 1) {
            throw new InvalidDataException(
                    "the arrays have no samples", path.toString(), "give arrays with at least one row");
        }
        if (count > Integer.MAX_VALUE) {
            throw new InvalidDataException(
                    count + " samples are more than " + Integer.MAX_VALUE, path.toString(), "split the file");
        }
        return (int) count;
    }

    @Override
    public String name() {
        return String.valueOf(path.getFileName());
    }

    @Override
    public int count() {
        return count;
    }

    @Override
    public String digest() {
        return digest;
    }

    @Override
    public Batch batch(int from, int size) throws IOException {
        Objects.checkFromIndexSize(from, size, count);
        Arena arena = Arena.ofAuto(); // a batch lives as long as it is referenced
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (InputSpec input : inputs) {
            Tensor number = numbers.get(input.name());
            tensors.put(
                    input.name(),
                    number == null ? readerAt(input.name(), from).read(size, arena) : numberOf(number, from, size));
        }
        return new Batch(from, size, tensors);
    }

    private Tensor numberOf(Tensor numbers, int from, int size) {
        if (numbers.shape().rank() == 0) {
            return numbers;
        }
        if (!areEqual(numbers, from, size)) {
            throw new InvalidDataException(
                    "samples " + from + " to " + (from + size - 1) + " have different numbers in the array '"
                            + numbers.name() + "', but the model takes one per batch",
                    path.toString(),
                    "give one number for all samples, or export the model with a batch of any size");
        }
        return new Tensor(new TensorSpec(numbers.name(), numbers.dtype(), Shape.SCALAR), elements(numbers, from, 1));
    }

    private static boolean areEqual(Tensor numbers, int from, int size) {
        return size < 2 || elements(numbers, from, size - 1).mismatch(elements(numbers, from + 1, size - 1)) < 0;
    }

    private static MemorySegment elements(Tensor numbers, int from, int size) {
        long width = numbers.bytes().byteSize() / numbers.shape().dim(0);
        return numbers.bytes().asSlice(from * width, size * width);
    }

    @Override
    public int largestBatch() {
        boolean same = numbers.values().stream().allMatch(n -> n.shape().rank() == 0 || areEqual(n, 0, count));
        return same ? Integer.MAX_VALUE : 1;
    }

    private NpyReader readerAt(String name, int row) throws IOException {
        NpyReader reader = readers.get(name);
        if (reader == null || reader.rowsRead() > row) {
            if (reader != null) {
                reader.close();
            }
            reader = file.reader(name);
            readers.put(name, reader);
        }
        reader.skip(row - reader.rowsRead());
        return reader;
    }

    @Override
    public void close() throws IOException {
        for (NpyReader reader : readers.values()) {
            reader.close();
        }
        file.close();
    }
}
