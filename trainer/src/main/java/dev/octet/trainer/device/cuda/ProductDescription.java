package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CublasLt.Descriptors;
import dev.octet.trainer.device.cuda.LtAttribute.Kind;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;

/**
 * A row-major product in terms of cublasLt, which is column-major. A row-major matrix in memory is the transpose of a column-major one, so
 * instead of D = op(A)·op(B) the library computes Dᵀ = op(B)ᵀ·op(A)ᵀ: its A is our b and its B is our a.
 */
final class ProductDescription implements AutoCloseable {
    private final CublasLt lt;
    private final Descriptors descriptors;

    /**
     * Describes a product that {@link ProductRules} accepts.
     *
     * @param allowTf32 whether F32 products may round operands to TF32
     */
    ProductDescription(CublasLt lt, CudaProduct p, boolean allowTf32) {
        this.lt = lt;
        boolean tf32 = allowTf32 && p.a().type() == DType.F32;
        long product = lt.createProduct(tf32 ? LtAttribute.COMPUTE_32F_FAST_TF32 : LtAttribute.COMPUTE_32F);
        // a transposed b is [n, k] in memory, column-major [k, n]; it must be transposed to give the transpose of
        // op(b), [n, k]
        lt.set(product, LtAttribute.TRANSA, p.transposeB() ? LtAttribute.OP_T : LtAttribute.OP_N);
        lt.set(product, LtAttribute.TRANSB, p.transposeA() ? LtAttribute.OP_T : LtAttribute.OP_N);
        if (p.isFp8()) {
            lt.set(product, LtAttribute.FAST_ACCUM, p.fastSums() ? 1 : 0);
            setUnlessZero(product, LtAttribute.A_SCALE_POINTER, p.scaleB());
            setUnlessZero(product, LtAttribute.B_SCALE_POINTER, p.scaleA());
            switch (p.scaleMode()) {
                case ONE -> {}
                case PER_VECTOR -> scales(product, LtAttribute.SCALE_PER_VECTOR, LtAttribute.SCALE_PER_VECTOR);
                case PER_RUN -> scales(product, LtAttribute.SCALE_PER_RUN, LtAttribute.SCALE_PER_RUN);
                case PER_RUN_AND_SQUARE -> scales(product, LtAttribute.SCALE_PER_SQUARE, LtAttribute.SCALE_PER_RUN);
                case PER_SQUARE_AND_RUN -> scales(product, LtAttribute.SCALE_PER_RUN, LtAttribute.SCALE_PER_SQUARE);
            }
        }
        if (p.bias() != 0) {
            // one bias for each row of Dᵀ
            lt.set(product, LtAttribute.EPILOGUE, LtAttribute.EPILOGUE_BIAS);
            lt.set(product, LtAttribute.BIAS_POINTER, p.bias());
            lt.set(product, LtAttribute.BIAS_DATA_TYPE, LtAttribute.dataType(p.biasType()));
        }
        long a = layout(p.b(), p.transposeB() ? p.k() : p.n(), p.transposeB() ? p.n() : p.k(), p.batch());
        long b = layout(p.a(), p.transposeA() ? p.m() : p.k(), p.transposeA() ? p.k() : p.m(), p.batch());
        long d = layout(p.d(), p.n(), p.m(), p.batch());
        descriptors = new Descriptors(product, a, b, d);
    }

    /** Of the library's A, which is our b, and its B. */
    private void scales(long product, int a, int b) {
        lt.set(product, LtAttribute.A_SCALE_MODE, a);
        lt.set(product, LtAttribute.B_SCALE_MODE, b);
    }

    private void setUnlessZero(long product, LtAttribute attribute, long address) {
        if (address != 0) {
            lt.set(product, attribute, address);
        }
    }

    private long layout(Matrix matrix, long rows, long cols, int batch) {
        long layout = lt.createLayout(matrix.type(), rows, cols, matrix.leading());
        if (batch > 1) {
            lt.set(layout, LtAttribute.BATCH_COUNT, batch);
            lt.set(layout, LtAttribute.STRIDED_BATCH_OFFSET, matrix.stride());
        }
        return layout;
    }

    Descriptors descriptors() {
        return descriptors;
    }

    @Override
    public void close() {
        lt.free(Kind.PRODUCT, descriptors.product());
        lt.free(Kind.LAYOUT, descriptors.a());
        lt.free(Kind.LAYOUT, descriptors.b());
        lt.free(Kind.LAYOUT, descriptors.d());
    }
}
