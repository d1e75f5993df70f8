package dev.octet.bench.gpu;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.Work;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.op.fp8.CudaCodes;
import java.util.List;

/**
 * The cast of delayed scaling: a BF16 matrix to E4M3 codes, their transpose and the amax, in one launch.
 *
 * @param micros microseconds
 * @param gigabytes read and written a second: two bytes read and two written for each element
 */
record CastTime(int rows, int cols, double micros, double gigabytes) {
    /** Rows and columns of a block's tile in fp8.cu. */
    private static final int TILE_ROWS = 64;

    private static final int TILE_COLS = 128;

    /** @param rows a multiple of 16, to which products want the transpose's rows padded */
    static CastTime measure(Gpu gpu, int rows, int cols, Timing timing) {
        long elements = (long) rows * cols;
        long x = Noise.of(gpu, DType.BF16, elements);
        long codes = gpu.allocate(elements, "codes");
        long transposed = gpu.allocate(elements, "transposed codes");
        long quantScale = Noise.one(gpu);
        long scale = gpu.allocate(Float.BYTES, "a scale");
        long amax = gpu.allocate(Float.BYTES, "an amax");
        Grid grid = new Grid(Math.ceilDiv(cols, TILE_COLS), Math.ceilDiv(rows, TILE_ROWS), 1, 256, 0);
        Work work = gpu.launch(
                CudaSource.of(CudaCodes.class, "fp8.cu"),
                "cast_transpose_bf16_e4m3",
                grid,
                List.of(
                        x,
                        (long) rows,
                        (long) cols,
                        codes,
                        (long) cols,
                        transposed,
                        (long) rows,
                        quantScale,
                        scale,
                        amax,
                        0L));
        double micros = timing.micros(gpu, work);
        for (long address : new long[] {x, codes, transposed, quantScale, scale, amax}) {
            gpu.release(address);
        }
        return new CastTime(rows, cols, micros, 4.0 * elements / micros / 1e3);
    }
}
