package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;

/**
 * Samples for a model, in an order that never changes. Opening one checks that it fits the model's inputs. Not thread-safe; owns
 * what its batches' tensors may point into, so they die when it is closed.
 */
public interface Dataset extends AutoCloseable {
    /** What to call it in messages and metadata: the file's name. */
    String name();

    /** Number of samples, at least 1. */
    int count();

    /** SHA-256 over the samples and all that decides how the model sees them, lower-case hexadecimal. */
    String digest();

    /** The most samples that fit in one batch; 1 where the model takes one number for a batch and samples have different ones. */
    default int largestBatch() {
        return Integer.MAX_VALUE;
    }

    /**
     * Samples {@code from} up to, not including, {@code from + size}.
     *
     * @throws IndexOutOfBoundsException when there are not so many
     * @throws InvalidDataException when a sample turns out not to fit, or they are more than {@link #largestBatch}
     * @throws IOException when the file cannot be read any more
     */
    Batch batch(int from, int size) throws IOException;

    /**
     * A part of this data set, as a data set of its own. Closing it closes this one.
     *
     * @throws InvalidDataException when there are not so many samples
     */
    default Dataset slice(int from, int size) {
        return from == 0 && size == count() ? this : new DatasetSlice(this, from, size);
    }

    @Override
    void close() throws IOException;
}
