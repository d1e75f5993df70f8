package dev.octet.converter.compare;

import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The elements of a transposed matrix. Reading some of its rows reads the whole base matrix and keeps some columns, so ranges should be
 * large.
 *
 * @param base the matrix as stored
 */
record TransposedElements(Elements base) implements Elements {
    private static final long CHUNK_ELEMENTS = 1 << 19;

    /** Reads a range of the base. */
    private interface Reader {
        void read(long from, long to, MemorySegment floats) throws IOException;
    }

    @Override
    public long count() {
        return base.count();
    }

    @Override
    public long cols() {
        return base.cols() == 0 ? 0 : base.count() / base.cols();
    }

    @Override
    public long rowsOfMatrix() {
        return base.cols();
    }

    @Override
    public int rowAlignment() {
        return 1;
    }

    @Override
    public void read(long from, long to, MemorySegment values) throws IOException {
        read(base::read, from, to, values);
    }

    @Override
    public void readMultipliers(long from, long to, MemorySegment multipliers) throws IOException {
        read(base::readMultipliers, from, to, multipliers);
    }

    private void read(Reader reader, long from, long to, MemorySegment target) throws IOException {
        long baseRows = cols();
        long firstColumn = from / baseRows;
        long lastColumn = to / baseRows;
        long step = Tiles.rowsPerChunk(base, CHUNK_ELEMENTS);
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment chunk = scratch.allocate(Math.min(step, baseRows) * base.cols() * Float.BYTES, 64);
            for (long row = 0; row < baseRows; row += step) {
                long end = Math.min(baseRows, row + step);
                reader.read(
                        row * base.cols(),
                        end * base.cols(),
                        chunk.asSlice(0, (end - row) * base.cols() * Float.BYTES));
                for (long r = row; r < end; r++) {
                    for (long c = firstColumn; c < lastColumn; c++) {
                        float x = chunk.get(Tensor.F32_LE, ((r - row) * base.cols() + c) * Float.BYTES);
                        target.set(Tensor.F32_LE, ((c - firstColumn) * baseRows + r) * Float.BYTES, x);
                    }
                }
            }
        }
    }
}
