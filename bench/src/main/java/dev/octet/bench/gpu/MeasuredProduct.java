package dev.octet.bench.gpu;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import java.util.List;

/**
 * A product of noise: a [m, k] and b, which lies as [n, k], to d [m, n].
 *
 * @param role fprop, dgrad or wgrad
 */
record MeasuredProduct(String role, int m, int n, int k, DType a, DType b, DType d) {
    /**
     * The three products of a Linear with all operands in FP8, as the recipe of delayed scaling has them: x and w in E4M3, the gradient of y
     * in E5M2; the weight's gradient in F32.
     */
    static List<MeasuredProduct> ofLinear(int rows, int in, int out) {
        DType e4m3 = DType.F8_E4M3FN;
        DType e5m2 = DType.F8_E5M2;
        return List.of(
                new MeasuredProduct("fprop", rows, out, in, e4m3, e4m3, DType.BF16),
                new MeasuredProduct("dgrad", rows, in, out, e5m2, e4m3, DType.BF16),
                new MeasuredProduct("wgrad", out, in, rows, e5m2, e4m3, DType.F32));
    }

    private boolean isFp8() {
        return a != DType.BF16;
    }

    double flops() {
        return 2.0 * m * n * k;
    }

    double teraflops(Gpu gpu, Timing timing) {
        return flops() / micros(gpu, timing) / 1e6;
    }

    double micros(Gpu gpu, Timing timing) {
        long first = Noise.of(gpu, a, (long) m * k);
        long second = Noise.of(gpu, b, (long) n * k);
        long result = gpu.allocate((long) m * n * d.bits() / 8, "a product");
        long one = Noise.one(gpu);
        CudaProduct product = CudaProduct.of(
                false, true, m, n, k, Matrix.of(first, a, k), Matrix.of(second, b, k), Matrix.of(result, d, n));
        // only fprop may add up in reduced precision, as Transformer Engine has it
        double micros = timing.micros(
                gpu, gpu.product(isFp8() ? product.scaled(one, one, b == a && d == DType.BF16) : product));
        for (long address : new long[] {first, second, result, one}) {
            gpu.release(address);
        }
        return micros;
    }
}
