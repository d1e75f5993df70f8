package dev.octet.trainer.data;

import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Map;

/** Samples that fit a graph, with random access. Not thread-safe; owns its file. */
public interface Samples extends AutoCloseable {
    /** File name, for messages. */
    String name();

    /** Number of samples, at least 1. */
    long count();

    /** SHA-256 over the samples and everything that affects how the model sees them, lower-case hexadecimal. */
    String digest();

    /**
     * Reads samples into one batch.
     *
     * @param rows indices of samples, from 0, in any order
     * @param arena owns the tensors
     * @return tensors by name of the input or labels; the first dimension of each is the number of rows
     * @throws dev.octet.formats.error.InvalidDataException when a sample has the wrong shape or is not finite
     * @throws IOException when the file can no longer be read
     */
    Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException;

    @Override
    void close() throws IOException;
}
