package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import java.util.Optional;

/** Which products cublasLt supports (cuBLAS 13, tables 2 and 3 of cublasLtMatmul), in terms of Octet's row-major products. */
final class ProductRules {
    private static final int MOST_BATCHES = 65535;

    private final CudaProduct p;
    private Optional<String> broken = Optional.empty();

    private ProductRules(CudaProduct product) {
        this.p = product;
    }

    /**
     * The first rule that a product breaks; empty when cublasLt supports it.
     *
     * @param capability of the GPU
     */
    static Optional<String> broken(CudaProduct product, int capability) {
        ProductRules rules = new ProductRules(product);
        rules.shapes();
        if (product.isFp8()) {
            rules.rule(
                    capability >= GpuInfo.FP8,
                    "FP8 products need compute capability 8.9, this GPU has " + capability / 10 + "."
                            + capability % 10);
            rules.fp8(capability);
        } else {
            rules.wide();
        }
        return rules.broken;
    }

    private void shapes() {
        rule(p.m() > 0 && p.n() > 0 && p.k() > 0, "m, n and k are at least 1");
        rule(p.batch() > 0 && p.batch() <= MOST_BATCHES, "a batch has 1 to " + MOST_BATCHES + " products");
        rule(p.a().leading() >= (p.transposeA() ? p.m() : p.k()), "rows of a do not overlap");
        rule(p.b().leading() >= (p.transposeB() ? p.k() : p.n()), "rows of b do not overlap");
        rule(p.d().leading() >= p.n(), "rows of d do not overlap");
        rule(
                p.batch() == 1 || p.d().stride() >= (p.m() - 1) * p.d().leading() + p.n(),
                "the results of a batch do not overlap");
        rule(p.a().stride() >= 0 && p.b().stride() >= 0, "strides are not negative");
    }

    private void wide() {
        DType type = p.a().type();
        DType d = p.d().type();
        rule(type == p.b().type(), "a and b have one type, or both are FP8");
        rule(type == DType.F32 || type == DType.BF16 || type == DType.F16, "operands are F32, BF16, F16 or FP8");
        rule(d == type || d == DType.F32, "the result has the operands' type or is F32");
        rule(p.scaleA() == 0 && p.scaleB() == 0, "only FP8 operands have scales");
        rule(p.bias() == 0 || p.biasType() == d, "the bias has the result's type");
        for (Matrix matrix : new Matrix[] {p.a(), p.b(), p.d()}) {
            rule(matrix.address() % bytes(matrix.type(), 1) == 0, "matrices are aligned to their elements");
        }
    }

    private void fp8(int capability) {
        DType a = p.a().type();
        DType b = p.b().type();
        DType d = p.d().type();
        rule(isFp8(a) && isFp8(b), "both operands are FP8, or none");
        rule(a != DType.F8_E5M2 || b != DType.F8_E5M2, "one operand at least is E4M3");
        rule(!p.transposeA() && p.transposeB(), "of FP8 operands the first is not transposed and the second is");
        rule(d == DType.BF16 || d == DType.F16 || d == DType.F32, "FP8 operands give BF16, F16 or F32");
        rule(p.k() % CudaProduct.ALIGNMENT == 0, "k is a multiple of 16 in FP8");
        rule(bytes(d, p.n()) % CudaProduct.ALIGNMENT == 0, "a row of the result is a multiple of 16 bytes in FP8");
        for (Matrix matrix : new Matrix[] {p.a(), p.b(), p.d()}) {
            rule(matrix.address() % CudaProduct.ALIGNMENT == 0, "matrices of FP8 products are aligned to 16 bytes");
            rule(
                    bytes(matrix.type(), matrix.leading()) % CudaProduct.ALIGNMENT == 0,
                    "leading dimensions of FP8 products are multiples of 16 bytes");
            rule(
                    bytes(matrix.type(), matrix.stride()) % CudaProduct.ALIGNMENT == 0,
                    "strides of FP8 products are multiples of 16 bytes");
        }
        rule(p.scaleA() % 4 == 0 && p.scaleB() % 4 == 0, "scales are aligned to 4 bytes");
        if (p.scaleMode() != CudaProduct.ScaleMode.ONE) {
            rule(p.scaleA() != 0 && p.scaleB() != 0, "both operands have a scale for each of their parts, or none");
            rule(p.batch() == 1, "a batch has one scale for each operand");
        }
        if (p.scaleMode().isOfBlocks()) { // "128-element 1D and 128x128 2D Block Scaling For FP8 Data Types"
            rule(capability == GpuInfo.SCALED_BLOCKS, "scales of blocks of 128 need compute capability 9.0");
            rule(p.m() % 4 == 0 && p.n() % 4 == 0, "m and n are multiples of 4 where blocks of 128 have scales");
            rule(p.scaleA() % 16 == 0 && p.scaleB() % 16 == 0, "scales of blocks are aligned to 16 bytes");
            rule(!p.fastSums(), "sums with scales of blocks are in F32");
        }
        rule(
                p.bias() == 0 || p.biasType() == (d == DType.F16 ? DType.F16 : DType.BF16),
                "the bias of an FP8 product is F16 for results in F16, BF16 otherwise");
        rule(p.bias() % CudaProduct.ALIGNMENT == 0, "the bias of an FP8 product is aligned to 16 bytes");
    }

    private static boolean isFp8(DType type) {
        return type == DType.F8_E4M3FN || type == DType.F8_E5M2;
    }

    private static long bytes(DType type, long elements) {
        return elements * type.bits() / 8;
    }

    private void rule(boolean holds, String text) {
        if (!holds && broken.isEmpty()) {
            broken = Optional.of(text);
        }
    }
}
