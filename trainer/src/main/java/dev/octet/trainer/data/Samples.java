package dev.octet.trainer.data;

import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Map;

/** Samples that fit a graph, any of them at any time. Not thread-safe; owns what it reads from. */
public interface Samples extends AutoCloseable {
    /** What to call it in messages: the file's name. */
    String name();

    /** Number of samples, at least 1. */
    long count();

    /** SHA-256 over the samples and all that decides how the model sees them, lower-case hexadecimal. */
    String digest();

    /**
     * Some samples together.
     *
     * @param rows numbers of samples from 0, in any order
     * @param arena where the tensors live
     * @return by name of input or labels; the first dimension of each is the number of rows
     * @throws dev.octet.formats.error.InvalidDataException when one does not fit or is not a number
     * @throws IOException when the file cannot be read any more
     */
    Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException;

    @Override
    void close() throws IOException;
}
