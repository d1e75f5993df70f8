package dev.octet.trainer.op.product;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;

/** Products as operators have them: of any size, empty ones too, added to what is there or not. */
public final class CudaProducts {
    private CudaProducts() {}

    /**
     * Writes {@code d = op(a)·op(b)}, or that added to d, of contiguous matrices.
     *
     * @param m rows of d
     * @param n columns of d
     */
    public static void write(
            boolean transposeA,
            boolean transposeB,
            int m,
            int n,
            int k,
            CudaTensor a,
            CudaTensor b,
            CudaTensor d,
            boolean accumulate,
            CudaStream cuda) {
        write(
                CudaProduct.of(
                                transposeA,
                                transposeB,
                                m,
                                n,
                                k,
                                Matrix.of(a.address(), a.dtype(), transposeA ? m : k),
                                Matrix.of(b.address(), b.dtype(), transposeB ? k : n),
                                Matrix.of(d.address(), d.dtype(), n))
                        .accumulating(accumulate),
                cuda);
    }

    /** Writes a product; one that sums over nothing is zero. */
    public static void write(CudaProduct product, CudaStream cuda) {
        refuseWide(product.a().type());
        refuseWide(product.d().type());
        if (product.m() == 0 || product.n() == 0 || product.batch() == 0) {
            return;
        }
        if (product.k() > 0) {
            cuda.product(product);
        } else if (!product.accumulate()) {
            Matrix d = product.d();
            long bytes = (long) product.m() * product.n() * d.type().bits() / 8;
            for (int i = 0; i < product.batch(); i++) {
                cuda.zero(d.address() + i * d.stride() * d.type().bits() / 8, bytes);
            }
        }
    }

    private static void refuseWide(DType type) {
        if (type == DType.F64) {
            throw new UnavailableException(
                    "products of F64 are not computed on GPUs", "a MatMul, Gemm or Linear", "train with --device cpu");
        }
    }
}
