package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import dev.octet.trainer.kernel.Scratch;
import dev.octet.trainer.op.product.Rows;
import java.lang.foreign.MemorySegment;

/**
 * Band by band of rows of w: all threads decode it, then all multiply it. A band is as large as it can be while it stays in a core's cache. Where the rows of w are
 * what a product sums over, the bands' products are added in F32 and rounded once. Bands follow from shapes alone, so results do not depend on the threads.
 */
final class StoredLinearCpu implements CpuKernel<StoredLinear> {
    /** Bytes of a decoded band: larger ones leave the second-level cache, smaller ones read x or dy more often. */
    private static final long BAND_BYTES = 1 << 20;

    /** Rows of a band come in such multiples, which suit the library's kernels. */
    private static final long ROWS = 64;

    /** Elements that one thread decodes at a time. */
    private static final long PIECE = 1 << 15;

    private static final Scratch BAND = new Scratch();
    private static final Scratch SUMS = new Scratch();

    private final long bandBytes;

    StoredLinearCpu() {
        this(BAND_BYTES);
    }

    /** With bands of about so many bytes. */
    StoredLinearCpu(long bandBytes) {
        this.bandBytes = bandBytes;
    }

    @Override
    public void forward(StoredLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor y = frame.output(0);
        if (op.hasBias()) {
            Rows.fill(y, frame.input(StoredLinear.BIAS), op.rows(), op.out(), cpu.parallel());
        }
        Product product = new Product(op, Tiles.of(op.w(), frame, StoredLinear.W), cpu);
        product.compute(op.transB(), frame.input(StoredLinear.X), y, op.hasBias());
    }

    @Override
    public void backward(StoredLinear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        if (frame.wantsGradient(StoredLinear.X)) {
            Product product = new Product(op, Tiles.of(op.w(), frame, StoredLinear.W), cpu);
            product.compute(!op.transB(), dy, frame.gradient(StoredLinear.X), frame.accumulates(StoredLinear.X));
        }
        if (op.hasBias() && frame.wantsGradient(StoredLinear.BIAS)) {
            CpuTensor db = frame.gradient(StoredLinear.BIAS);
            Rows.sum(dy, db, op.rows(), op.out(), frame.accumulates(StoredLinear.BIAS), cpu.parallel());
        }
    }

    /** Products with w or its transpose. */
    private final class Product {
        private final int m;
        private final int rows;
        private final int cols;
        private final DType type;
        private final Tiles tiles;
        private final CpuContext cpu;

        Product(StoredLinear op, Tiles tiles, CpuContext cpu) {
            this.m = op.rows();
            this.rows = op.w().rows();
            this.cols = op.w().cols();
            this.type = op.x().dtype();
            this.tiles = tiles;
            this.cpu = cpu;
        }

        /** {@code c = a·wᵀ} ({@code transposed}) or {@code a·w}, or that added to c. */
        void compute(boolean transposed, CpuTensor a, CpuTensor c, boolean add) {
            MemorySegment whole = tiles.inPlace(type);
            if (whole != null || rows == 0 || cols == 0) {
                MemorySegment w = whole == null ? BAND.room(0) : whole;
                int n = transposed ? rows : cols;
                int k = transposed ? cols : rows;
                Call call = Call.of(false, transposed, m, n, k, type, c.dtype(), add);
                cpu.gemm().shared(call, a.bytes(), w, c.bytes(), cpu.parallel());
            } else if (transposed) {
                sideBySide(a, c, add);
            } else {
                added(a, c, add);
            }
        }

        /** Each band gives columns of c. */
        private void sideBySide(CpuTensor a, CpuTensor c, boolean add) {
            long width = c.dtype().bits() / 8;
            bands((first, count, band) -> {
                Call call = new Call(false, true, m, count, cols, cols, cols, rows, type, c.dtype(), add);
                cpu.gemm().shared(call, a.bytes(), band, c.bytes().asSlice(first * width), cpu.parallel());
            });
        }

        /** Each band's product is added to c, which is summed in F32. */
        private void added(CpuTensor a, CpuTensor c, boolean add) {
            long width = type.bits() / 8;
            boolean direct = c.dtype() == DType.F32;
            CpuTensor sums = direct ? c : new CpuTensor(c.type().as(DType.F32), SUMS.room(c.count() * Float.BYTES));
            bands((first, count, band) -> {
                boolean more = first > 0 || (direct && add);
                Call call = new Call(false, false, m, cols, count, rows, cols, cols, type, DType.F32, more);
                cpu.gemm().shared(call, a.bytes().asSlice(first * width), band, sums.bytes(), cpu.parallel());
            });
            if (!direct) {
                round(sums, c, add);
            }
        }

        private void bands(Band body) {
            tiles.prepare(cpu.parallel());
            long row = Math.max(1, cols * (long) type.bits() / 8);
            int height = Math.toIntExact(Math.min(rows, Math.max(1, bandBytes / row / ROWS) * ROWS));
            MemorySegment room = BAND.room(height * row);
            for (int first = 0; first < rows; first += height) {
                int start = first;
                int count = Math.min(height, rows - first);
                long grain = Math.max(tiles.alignment(), PIECE / cols);
                cpu.parallel().ranges(count, grain, (from, to) -> {
                    MemorySegment piece = room.asSlice(from * row, (to - from) * row);
                    tiles.read(start + from, start + to, type, piece);
                });
                body.multiply(first, count, room.asSlice(0, count * row));
            }
        }

        private void round(CpuTensor sums, CpuTensor c, boolean add) {
            cpu.parallel().ranges(c.count(), CpuContext.GRAIN, (from, to) -> {
                float[] tile = new float[CpuContext.TILE];
                float[] old = new float[CpuContext.TILE];
                for (long i = from; i < to; i += tile.length) {
                    int n = (int) Math.min(tile.length, to - i);
                    sums.read(i, tile, 0, n);
                    if (add) {
                        c.read(i, old, 0, n);
                        for (int k = 0; k < n; k++) {
                            tile[k] += old[k];
                        }
                    }
                    c.write(i, tile, 0, n);
                }
            });
        }
    }

    private interface Band {
        /** Multiplies rows {@code first .. first + count - 1} of w. */
        void multiply(int first, int count, MemorySegment decoded);
    }
}
