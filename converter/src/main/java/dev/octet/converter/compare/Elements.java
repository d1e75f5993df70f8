package dev.octet.converter.compare;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * The elements of one weight as real numbers, row-major, read by ranges. For use by several threads at once.
 */
interface Elements {
    /** Number of elements. */
    long count();

    /** Elements in a row: the innermost dimension; of a scalar 1. */
    long cols();

    /** Rows of one matrix; a weight of three axes is one matrix after the other. */
    long rowsOfMatrix();

    /**
     * Rows that must be read from their first on, counted within a matrix; 0 when elements can be read from anywhere. Otherwise ranges
     * start and end at rows, and start at a multiple of this within their matrix.
     */
    int rowAlignment();

    /**
     * Reads elements {@code from .. to - 1}, dequantised.
     *
     * @param values takes {@code to - from} F32
     * @throws IOException when the file cannot be read
     * @throws dev.octet.formats.error.OctetException when what is stored means no numbers
     */
    void read(long from, long to, MemorySegment values) throws IOException;

    /**
     * Reads the multiplier of the code of each element {@code from .. to - 1}; only called for quantised weights.
     *
     * @param multipliers takes {@code to - from} F32
     * @throws IOException when the file cannot be read
     */
    void readMultipliers(long from, long to, MemorySegment multipliers) throws IOException;
}
