package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;

/** Tile by tile, tiles added in order in F64. The sum of a tile is F32 where that can neither overflow nor vanish. */
final class SquareSumCpu implements CpuKernel.Forward<SquareSum> {
    /** Sums of a tile's squares between these bounds are exact enough in F32: what is lost in smaller squares is far below them. */
    private static final float SMALLEST = 1e-25f;

    private static final float LARGEST = 1e30f;

    @Override
    public void forward(SquareSum op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor g = frame.input(0);
        double[] sums = new double[Math.toIntExact(Math.ceilDiv(g.count(), (long) CpuContext.TILE))];
        tiles(g.count(), cpu, () -> {
            float[] tile = new float[CpuContext.TILE];
            return (from, n) -> {
                g.read(from, tile, 0, n);
                sums[(int) (from / CpuContext.TILE)] = squares(tile, n);
            };
        });
        double sum = 0;
        for (double s : sums) {
            sum += s;
        }
        frame.output(0).bytes().set(Tensor.F64_LE, 0, sum);
    }

    static double squares(float[] x, int n) {
        float sum = VectorMath.dot(x, 0, x, 0, n);
        return sum > SMALLEST && sum < LARGEST ? sum : wideSquares(x, n);
    }

    /** Four chains of additions, element {@code i} in chain {@code i mod 4}. */
    private static double wideSquares(float[] x, int n) {
        double a = 0;
        double b = 0;
        double c = 0;
        double d = 0;
        int whole = n - n % 4;
        for (int i = 0; i < whole; i += 4) {
            a += (double) x[i] * x[i];
            b += (double) x[i + 1] * x[i + 1];
            c += (double) x[i + 2] * x[i + 2];
            d += (double) x[i + 3] * x[i + 3];
        }
        for (int i = whole; i < n; i++) {
            a += (double) x[i] * x[i];
        }
        return (a + b) + (c + d);
    }
}
