package dev.octet.bench.gpu;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.Gpu;

/**
 * What the GPU allows: what it was measured to do at best, not what its data sheet says.
 *
 * @param copyGigabytes read and written a second by a copy within the device
 * @param bf16Teraflops operations a second of a large BF16 product
 * @param fp8Teraflops the same in FP8; that of BF16 where there is no FP8
 */
record Limits(double copyGigabytes, double bf16Teraflops, double fp8Teraflops) {
    /** @param bytes of the copy
     *  @param matrix rows and columns of the products */
    record Size(long bytes, int matrix) {
        static final Size LARGE = new Size(4L << 30, 8192);
    }

    static Limits measure(Gpu gpu, Size size, Timing timing) {
        long from = gpu.allocate(size.bytes(), "the source of a copy");
        long to = gpu.allocate(size.bytes(), "a copy");
        double micros = timing.micros(gpu, gpu.copy(from, to, size.bytes()));
        gpu.release(from);
        gpu.release(to);
        int n = size.matrix();
        double bf16 = new MeasuredProduct("limit", n, n, n, DType.BF16, DType.BF16, DType.BF16).teraflops(gpu, timing);
        double fp8 = gpu.info().hasFp8()
                ? new MeasuredProduct("limit", n, n, n, DType.F8_E4M3FN, DType.F8_E4M3FN, DType.BF16)
                        .teraflops(gpu, timing)
                : bf16;
        return new Limits(2.0 * size.bytes() / micros / 1e3, bf16, fp8);
    }
}
