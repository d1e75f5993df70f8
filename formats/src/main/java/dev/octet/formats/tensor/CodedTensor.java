package dev.octet.formats.tensor;

import java.lang.foreign.MemorySegment;

/**
 * A tensor of floats that lies in a file as something else, usually as codes with scales. It stays in those bytes; rows become floats when they are
 * asked for.
 *
 * <p>Like a {@link Tensor} it owns nothing: it is valid as long as the file is open. Any number of threads may read it.
 */
public interface CodedTensor {
    /** Its name and shape; F32, because its elements are read as that. */
    TensorSpec spec();

    /** Bytes of all that stands for it. */
    long byteSize();

    /**
     * Reads rows as F32. A tensor of more than two axes has the rows of all its matrices, one after the other; a vector is one row.
     *
     * @param fromRow first row
     * @param toRow the row after the last
     * @param floats takes {@code (toRow - fromRow) * columns} F32
     */
    void read(long fromRow, long toRow, MemorySegment floats);
}
