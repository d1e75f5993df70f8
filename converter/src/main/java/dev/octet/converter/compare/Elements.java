package dev.octet.converter.compare;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * The elements of one weight as real numbers, row-major, read by ranges. Thread-safe.
 */
interface Elements {
    /** Number of elements. */
    long count();

    /** Elements in a row: the innermost dimension; 1 for a scalar. */
    long cols();

    /** Rows of one matrix; a weight with three axes is a sequence of matrices. */
    long rowsOfMatrix();

    /**
     * Alignment of ranges, in rows within a matrix: ranges start and end at rows and start at a multiple of it. 0 when a range may start at
     * any element.
     */
    int rowAlignment();

    /**
     * Reads elements {@code from .. to - 1}, dequantised.
     *
     * @param values takes {@code to - from} F32
     * @throws IOException when the file cannot be read
     * @throws dev.octet.formats.error.OctetException when the stored elements do not mean numbers
     */
    void read(long from, long to, MemorySegment values) throws IOException;

    /**
     * Reads the multipliers of elements {@code from .. to - 1}; called for quantised weights only.
     *
     * @param multipliers takes {@code to - from} F32
     * @throws IOException when the file cannot be read
     */
    void readMultipliers(long from, long to, MemorySegment multipliers) throws IOException;
}
