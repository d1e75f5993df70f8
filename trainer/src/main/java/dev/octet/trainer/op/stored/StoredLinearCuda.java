package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.product.CudaProducts;
import dev.octet.trainer.op.product.CudaRows;

/** Band by band of rows of w, decoded into the workspace; most matrices are one band. */
final class StoredLinearCuda implements CudaKernel<StoredLinear> {
    /** Bytes of a decoded band: products of this size fill a large GPU, and all steps share the memory. */
    private static final long BAND_BYTES = 128L << 20;

    /** Rows of a band come in such multiples: products read 16 bytes at a time. */
    private static final long ROWS = 64;

    private final long bandBytes;

    StoredLinearCuda() {
        this(BAND_BYTES);
    }

    /** With bands of about so many bytes. */
    StoredLinearCuda(long bandBytes) {
        this.bandBytes = bandBytes;
    }

    @Override
    public void forward(StoredLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        CudaTensor bias = op.hasBias() ? frame.input(StoredLinear.BIAS) : null;
        // in the sums: a small product added to a BF16 y was off on an H100 by as much as rounding it first is
        boolean epilogue = bias != null
                && op.transB()
                && bias.dtype() == y.dtype()
                && op.w().cols() > 0;
        if (bias != null && !epilogue) {
            CudaRows.fill(y, bias, op.rows(), op.out(), 1, op.out(), 1, cuda);
        }
        long address = epilogue && bias != null ? bias.address() : 0;
        multiply(op, op.transB(), frame, frame.input(StoredLinear.X), y, address, bias != null && !epilogue, cuda);
    }

    @Override
    public void backward(StoredLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        if (frame.wantsGradient(StoredLinear.X)) {
            CudaTensor dx = frame.gradient(StoredLinear.X);
            multiply(op, !op.transB(), frame, dy, dx, 0, frame.accumulates(StoredLinear.X), cuda);
        }
        if (op.hasBias() && frame.wantsGradient(StoredLinear.BIAS)) {
            CudaTensor db = frame.gradient(StoredLinear.BIAS);
            CudaRows.sum(dy, db, op.rows(), op.out(), frame.accumulates(StoredLinear.BIAS), cuda);
        }
    }

    /** {@code c = a·wᵀ} ({@code transposed}) or {@code a·w}, with a bias of wᵀ's rows at an address other than 0, or that added to c. */
    private void multiply(
            StoredLinear op,
            boolean transposed,
            Frame<CudaTensor> frame,
            CudaTensor a,
            CudaTensor c,
            long bias,
            boolean add,
            CudaStream cuda) {
        CudaTiles tiles = new CudaTiles(op.w(), frame, StoredLinear.W, cuda);
        DType type = op.x().dtype();
        int rows = op.w().rows();
        int cols = op.w().cols();
        int m = op.rows();
        CudaTensor whole = tiles.inPlace(type);
        long width = type.bits() / 8;
        long row = Math.max(1, cols * width);
        int height = Math.toIntExact(Math.clamp(Math.max(1, bandBytes / row / ROWS) * ROWS, 1, Math.max(1, rows)));
        CudaProducts products = new CudaProducts(cuda).keeping(a);
        boolean oneBand = whole != null || height >= rows || rows == 0 || cols == 0;
        if (oneBand) {
            long w = whole != null ? whole.address() : decoded(tiles, 0, rows, row, type, cuda);
            int n = transposed ? rows : cols;
            int k = transposed ? cols : rows;
            products.write(product(transposed, m, n, k, a, 0, k, w, cols, c, 0, n)
                    .withBias(bias, c.dtype())
                    .accumulating(add));
            return;
        }
        boolean summed = !transposed && c.dtype() != DType.F32;
        CudaTensor sums = summed ? new CudaTensor(c.type().as(DType.F32), cuda.workspace(c.count() * Float.BYTES)) : c;
        long band = cuda.workspace(height * row);
        for (int first = 0; first < rows; first += height) {
            int count = Math.min(height, rows - first);
            tiles.tile(first, count, type, band);
            CudaProduct product = transposed
                    ? product(true, m, count, cols, a, 0, cols, band, cols, c, first, rows)
                            .withBias(
                                    bias == 0
                                            ? 0
                                            : bias + (long) first * c.dtype().bits() / 8,
                                    c.dtype())
                            .accumulating(add)
                    : product(false, m, cols, count, a, first, rows, band, cols, sums, 0, cols)
                            .accumulating(first > 0 || (!summed && add));
            products.write(product);
        }
        if (summed && c.count() > 0) {
            cuda.launch(
                    CudaTiles.source(type),
                    "stored_round",
                    Grid.over(c.count(), 256, 1),
                    sums,
                    c.count(),
                    add ? 1 : 0,
                    c);
        }
    }

    private static long decoded(CudaTiles tiles, int first, int count, long row, DType type, CudaStream cuda) {
        long to = cuda.workspace(Math.max(1, count * row));
        if (count > 0 && row > 1) {
            tiles.tile(first, count, type, to);
        }
        return to;
    }

    /** c [m, n] from column {@code c0} on = a [m, k] from column {@code a0} on, times the rows of w at this address. */
    private static CudaProduct product(
            boolean transposed,
            int m,
            int n,
            int k,
            CudaTensor a,
            long a0,
            long lda,
            long w,
            long ldw,
            CudaTensor c,
            long c0,
            long ldc) {
        return CudaProduct.of(
                false,
                transposed,
                m,
                n,
                k,
                Matrix.of(a.address() + a0 * a.dtype().bits() / 8, a.dtype(), lda),
                Matrix.of(w, a.dtype(), ldw),
                Matrix.of(c.address() + c0 * c.dtype().bits() / 8, c.dtype(), ldc));
    }
}
