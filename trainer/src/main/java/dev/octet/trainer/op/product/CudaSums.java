package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import org.jspecify.annotations.Nullable;

/**
 * F32 sums of products that are yet to become a result.
 *
 * @param sums where they are
 * @param sides rows and columns of the result, at least as many as the sums have
 * @param batch number of matrices
 */
public record CudaSums(Matrix sums, CudaLengths.Sides sides, int batch) {
    /** Words of four bytes that a warp takes of a row at a time, as in product.cu. */
    private static final long WORDS = 256;

    private static final long MOST_SEGMENTS = 65535;

    /**
     * What sums are multiplied by.
     *
     * @param rows address of one scale, or of one for each row; 0 for none
     * @param countOfRows 1, or the number of rows
     * @param columns the same of columns
     * @param countOfColumns 1, or the number of columns
     */
    public record Scales(long rows, long countOfRows, long columns, long countOfColumns) {
        /** Sums are the result. */
        public static final Scales NONE = new Scales(0, 1, 0, 1);
    }

    /** {@code d += sums}. */
    void addTo(Matrix d, CudaStream cuda) {
        finish(Scales.NONE, null, DType.F32, d, true, cuda);
    }

    /**
     * {@code d = sums · scales + bias}, or that added to d.
     *
     * @param bias F32 [n], rounded to {@code biasType} before it is added; null for none
     */
    public void finish(
            Scales scales, @Nullable CudaTensor bias, DType biasType, Matrix d, boolean accumulate, CudaStream cuda) {
        long n = sides.columns();
        long segment = WORDS * Float.BYTES * 8 / d.type().bits();
        long segments = Math.min(MOST_SEGMENTS, Math.ceilDiv(n + 1, segment));
        cuda.kernel(
                        CudaRows.SOURCE,
                        "finish_sums_" + CudaSource.suffix(d.type()),
                        new Grid(Math.ceilDiv(sides.rows(), 8), Math.toIntExact(segments), batch, 256, 0))
                .pointer("sums", sums.address())
                .value("leading", sums.leading())
                .value("stride", sums.stride())
                .value("rows", (long) sides.rows())
                .value("n", n)
                .pointer("row_scales", scales.rows())
                .value("count_of_rows", scales.countOfRows())
                .pointer("column_scales", scales.columns())
                .value("count_of_columns", scales.countOfColumns())
                .pointer("bias", bias)
                .value("bias_type", biasType == DType.BF16 ? 1 : biasType == DType.F16 ? 2 : 0)
                .pointer("d", d.address())
                .value("d_leading", d.leading())
                .value("d_stride", d.stride())
                .flag("accumulate", accumulate)
                .value("step", segments * segment)
                .launch();
    }
}
