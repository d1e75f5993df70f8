package dev.octet.trainer.op.batchnorm;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;

/** A channel is one piece; its sums run over the samples in order. */
final class BatchNormalizationCpu implements CpuKernel<BatchNormalization> {
    @Override
    public void forward(BatchNormalization op, Frame<CpuTensor> frame, CpuContext cpu) {
        cpu.parallel().pieces(op.channels(), c -> {
            Tiles tiles = new Tiles(op, c);
            float factor = number(frame.input(1), c) * r(op, frame, c);
            float shift = number(frame.input(2), c) - number(frame.input(3), c) * factor;
            tiles.forEach((at, n) -> {
                frame.input(0).read(at, tiles.x, 0, n);
                for (int i = 0; i < n; i++) {
                    tiles.x[i] = tiles.x[i] * factor + shift;
                }
                frame.output(0).write(at, tiles.x, 0, n);
            });
        });
    }

    /** The runs of one channel, cut into tiles. */
    private static final class Tiles {
        private final BatchNormalization op;
        private final int channel;
        private final float[] x;
        private final float[] dy;

        interface Tile {
            void run(long at, int n);
        }

        Tiles(BatchNormalization op, int channel) {
            this.op = op;
            this.channel = channel;
            int size = Math.min(CpuContext.TILE, op.inner());
            x = new float[size];
            dy = new float[size];
        }

        void forEach(Tile body) {
            for (long sample = 0; sample < op.samples(); sample++) {
                long start = (sample * op.channels() + channel) * op.inner();
                for (int i = 0; i < op.inner(); i += CpuContext.TILE) {
                    body.run(start + i, Math.min(CpuContext.TILE, op.inner() - i));
                }
            }
        }
    }

    private static float number(CpuTensor t, int i) {
        float[] one = new float[1];
        t.read(i, one, 0, 1);
        return one[0];
    }

    private static float r(BatchNormalization op, Frame<CpuTensor> frame, int c) {
        return (float) (1 / Math.sqrt((double) number(frame.input(4), c) + op.epsilon()));
    }

    @Override
    public void backward(BatchNormalization op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] dscale = new float[op.channels()];
        float[] dbias = new float[op.channels()];
        cpu.parallel().pieces(op.channels(), c -> {
            Tiles tiles = new Tiles(op, c);
            float r = r(op, frame, c);
            float mean = number(frame.input(3), c);
            float factor = number(frame.input(1), c) * r;
            double[] sums = new double[2];
            tiles.forEach((at, n) -> {
                frame.upstream(0).read(at, tiles.dy, 0, n);
                frame.input(0).read(at, tiles.x, 0, n);
                for (int i = 0; i < n; i++) {
                    tiles.x[i] -= mean;
                }
                sums[0] += VectorMath.dot(tiles.dy, 0, tiles.x, 0, n);
                sums[1] += VectorMath.sum(tiles.dy, 0, n);
                if (frame.wantsGradient(0)) {
                    for (int i = 0; i < n; i++) {
                        tiles.dy[i] *= factor;
                    }
                    frame.gradient(0).write(at, tiles.dy, 0, n);
                }
            });
            dscale[c] = (float) (sums[0] * r);
            dbias[c] = (float) sums[1];
        });
        if (frame.wantsGradient(1)) {
            frame.gradient(1).write(0, dscale, 0, dscale.length);
        }
        if (frame.wantsGradient(2)) {
            frame.gradient(2).write(0, dbias, 0, dbias.length);
        }
    }
}
