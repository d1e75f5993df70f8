package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.ManyTensorsKernel;
import java.util.List;

/** What goes with products on a GPU: a row added to all rows before, the sum of all rows behind. */
public final class CudaRows {
    static final CudaSource SOURCE = CudaSource.of(CudaRows.class, "product.cu");

    /** Columns that one block sums, as in product.cu. */
    private static final long COLUMNS = 256;

    /** Columns whose parts one block joins, as in product.cu. */
    private static final long JOINED = 32;

    /** Blocks that a sum is cut into, together: a few for each multiprocessor of a large GPU. */
    private static final long BLOCKS = 512;

    /** Rows that are worth a block of their own. */
    private static final long FEWEST_ROWS = 32;

    private CudaRows() {}

    /** {@code y [rows, n] = factor · c}, c repeated along the axes it has one element of. */
    public static void fill(
            CudaTensor y,
            CudaTensor c,
            long rows,
            long n,
            long rowsOfC,
            long columnsOfC,
            float factor,
            CudaStream cuda) {
        cuda.launch(
                SOURCE,
                "fill_rows",
                Grid.over(rows * n, 256, 1),
                CudaSource.code(y.dtype()),
                y,
                CudaSource.code(c.dtype()),
                c,
                rows,
                n,
                rowsOfC,
                columnsOfC,
                factor);
    }

    /**
     * {@code sum [n]} = the sum of the rows of {@code x [rows, n]}, or that added to it. Rows are cut by shapes alone, sums added in order.
     *
     * @param x F32, BF16 or F16
     */
    public static void sum(CudaTensor x, CudaTensor sum, long rows, long n, boolean accumulate, CudaStream cuda) {
        sum(x, sum, DType.F32, rows, n, accumulate, cuda);
    }

    /**
     * The same.
     *
     * @param rounded type that the rows' sum is rounded to before it is written or added
     */
    static void sum(
            CudaTensor x, CudaTensor sum, DType rounded, long rows, long n, boolean accumulate, CudaStream cuda) {
        if (n == 0) {
            return;
        }
        long panels = Math.ceilDiv(n, COLUMNS);
        long wanted = Math.max(1, Math.min(Math.ceilDiv(rows, FEWEST_ROWS), BLOCKS / panels));
        long group = Math.max(1, Math.ceilDiv(rows, wanted));
        int splits = Math.toIntExact(Math.max(1, Math.ceilDiv(rows, group)));
        long parts = cuda.workspace(sum, splits * n * Float.BYTES);
        cuda.launch(SOURCE, "column_sums_" + x.suffix(), new Grid(panels, splits, 1, 256, 0), x, rows, n, group, parts);
        join(parts, splits, n, sum, rounded, accumulate, cuda);
    }

    /**
     * {@code sum [n]} = the sum of the rows of {@code parts}, or that added to it, in an order that {@code splits} alone decides. Sums of as many rows share a
     * launch where they can wait.
     *
     * @param parts F32 [splits, n], in a workspace for {@code sum}
     */
    public static void join(long parts, long splits, long n, CudaTensor sum, boolean accumulate, CudaStream cuda) {
        join(parts, splits, n, sum, DType.F32, accumulate, cuda);
    }

    private static void join(
            long parts, long splits, long n, CudaTensor sum, DType rounded, boolean accumulate, CudaStream cuda) {
        cuda.together(
                new ManyTensorsKernel(SOURCE, "column_joins", JOINED, List.of(splits)),
                sum,
                n,
                parts,
                n,
                CudaSource.code(sum.dtype()),
                sum.address(),
                accumulate ? 1 : 0,
                CudaSource.code(rounded));
    }
}
