package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;

/**
 * Samples for a model, in a fixed order. Opening a data set checks that it fits the model's inputs. Not thread-safe. Owns the memory of its
 * batches' tensors, which are invalid after closing.
 */
public interface Dataset extends AutoCloseable {
    /** The file's name, for messages and metadata. */
    String name();

    /** Number of samples, at least 1. */
    int count();

    /** SHA-256 over the samples and everything that affects how the model reads them, lower-case hexadecimal. */
    String digest();

    /** Largest batch size; 1 where the model takes one number per batch and samples differ in it. */
    default int largestBatch() {
        return Integer.MAX_VALUE;
    }

    /**
     * Samples {@code from} to {@code from + size - 1}.
     *
     * @throws IndexOutOfBoundsException when the range exceeds {@link #count}
     * @throws InvalidDataException when a sample does not fit, or {@code size} exceeds {@link #largestBatch}
     * @throws IOException when reading the file fails
     */
    Batch batch(int from, int size) throws IOException;

    /**
     * A range of this data set as a data set. Closing it closes this data set.
     *
     * @throws InvalidDataException when the range exceeds {@link #count}
     */
    default Dataset slice(int from, int size) {
        return from == 0 && size == count() ? this : new DatasetSlice(this, from, size);
    }

    @Override
    void close() throws IOException;
}
