package dev.octet.trainer.op.reduce;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Fold;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.RepeatedGradient;
import dev.octet.trainer.kernel.VectorMath;

/** x is read once, tile by tile; for LogSumExp, and for the gradient of extremes, twice. */
final class ReduceCpu implements CpuKernel<Reduce> {
    @Override
    public void forward(Reduce op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        if (!CpuTensor.fitsTiles(x.dtype())) {
            forwardOneByOne(op, x, y);
            return;
        }
        Broadcast broadcast = op.broadcast();
        float[] folded = new float[Math.toIntExact(y.count())];
        switch (op.kind()) {
            case ReduceL1 -> sum(broadcast, x, folded, cpu, ReduceCpu::magnitudes);
            case ReduceL2, ReduceSumSquare -> sum(broadcast, x, folded, cpu, ReduceCpu::squares);
            case ReduceLogSum, ReduceMean, ReduceSum -> sum(broadcast, x, folded, cpu, (t, n) -> {});
            case ReduceMax -> largest(broadcast, x, folded, cpu, 1);
            case ReduceMin -> largest(broadcast, x, folded, cpu, -1);
            case ReduceLogSumExp -> logSumExp(broadcast, x, folded, cpu);
        }
        finish(op, folded);
        y.write(0, folded, 0, folded.length);
    }

    private static void finish(Reduce op, float[] folded) {
        switch (op.kind()) {
            case ReduceMean -> {
                float terms = op.terms();
                for (int k = 0; k < folded.length; k++) {
                    folded[k] /= terms;
                }
            }
            case ReduceL2 -> {
                for (int k = 0; k < folded.length; k++) {
                    folded[k] = (float) Math.sqrt(folded[k]);
                }
            }
            case ReduceLogSum -> VectorMath.log(folded, 0, folded, 0, folded.length);
            case ReduceL1, ReduceSum, ReduceSumSquare, ReduceMax, ReduceMin, ReduceLogSumExp -> {}
        }
    }

    /** Changes the first {@code n} elements of a tile. */
    private interface Change {
        void apply(float[] tile, int n);
    }

    private static void magnitudes(float[] t, int n) {
        for (int i = 0; i < n; i++) {
            t[i] = Math.abs(t[i]);
        }
    }

    private static void squares(float[] t, int n) {
        for (int i = 0; i < n; i++) {
            t[i] *= t[i];
        }
    }

    private static void sum(Broadcast broadcast, CpuTensor x, float[] folded, CpuContext cpu, Change change) {
        RepeatedGradient.fold(Fold.SUM, broadcast, folded, cpu, (from, n, scratch, tiles) -> {
            x.read(from, tiles[0], 0, n);
            change.apply(tiles[0], n);
        });
    }

    private static void largest(Broadcast broadcast, CpuTensor x, float[] folded, CpuContext cpu, float sign) {
        RepeatedGradient.fold(Fold.MAX, broadcast, folded, cpu, (from, n, scratch, tiles) -> {
            x.read(from, tiles[0], 0, n);
            scale(tiles[0], n, sign);
        });
        scale(folded, folded.length, sign);
    }

    private static void scale(float[] t, int n, float by) {
        for (int i = 0; i < n; i++) {
            t[i] *= by;
        }
    }

    private static void logSumExp(Broadcast broadcast, CpuTensor x, float[] folded, CpuContext cpu) {
        float[] largest = new float[folded.length];
        largest(broadcast, x, largest, cpu, 1);
        CpuTensor shift = CpuTensor.of(largest);
        RepeatedGradient.fold(Fold.SUM, broadcast, folded, cpu, (from, n, scratch, tiles) -> {
            x.read(from, tiles[0], 0, n);
            broadcast.read(0, shift, from, scratch[0], n);
            for (int i = 0; i < n; i++) {
                tiles[0][i] -= scratch[0][i];
            }
            VectorMath.exp(tiles[0], 0, tiles[0], 0, n);
        });
        VectorMath.log(folded, 0, folded, 0, folded.length);
        for (int k = 0; k < folded.length; k++) {
            folded[k] += largest[k];
        }
    }

    private static void forwardOneByOne(Reduce op, CpuTensor x, CpuTensor y) {
        double[] values = new double[Math.toIntExact(x.count())];
        for (int i = 0; i < values.length; i++) {
            values[i] = x.readNumber(i);
        }
        double[] results = new double[Math.toIntExact(y.count())];
        ReduceReference.forward(op, values, results);
        for (int i = 0; i < results.length; i++) {
            y.writeNumber(i, results[i]);
        }
    }

    @Override
    public void backward(Reduce op, Frame<CpuTensor> frame, CpuContext cpu) {
        Broadcast broadcast = op.broadcast();
        CpuTensor g = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        CpuTensor x = op.backwardReadsInput(0) ? frame.input(0) : g; // g: not looked at
        CpuTensor y = op.backwardReadsOutput(0) ? frame.output(0) : g;
        boolean extreme = op.kind() == Reduce.Kind.ReduceMax || op.kind() == Reduce.Kind.ReduceMin;
        CpuTensor equal = extreme ? equal(broadcast, x, y, cpu) : g;
        cpu.parallel().ranges(dx.count(), CpuContext.GRAIN, (from, to) -> {
            float[] tg = new float[CpuContext.TILE];
            float[] tx = new float[CpuContext.TILE];
            float[] ty = new float[CpuContext.TILE];
            float[] te = new float[extreme ? CpuContext.TILE : 0];
            for (long at = from; at < to; at += CpuContext.TILE) {
                int n = (int) Math.min(CpuContext.TILE, to - at);
                broadcast.read(0, g, at, tg, n);
                if (op.backwardReadsInput(0)) {
                    x.read(at, tx, 0, n);
                }
                if (op.backwardReadsOutput(0)) {
                    broadcast.read(0, y, at, ty, n);
                }
                if (extreme) {
                    broadcast.read(0, equal, at, te, n);
                }
                gradient(op, tg, tx, ty, te, n);
                dx.write(at, tg, 0, n);
            }
        });
    }

    /** How many elements equal the extreme one. */
    private static CpuTensor equal(Broadcast broadcast, CpuTensor x, CpuTensor y, CpuContext cpu) {
        float[] equal = new float[Math.toIntExact(y.count())];
        RepeatedGradient.fold(Fold.SUM, broadcast, equal, cpu, (from, n, scratch, tiles) -> {
            x.read(from, tiles[0], 0, n);
            broadcast.read(0, y, from, scratch[0], n);
            for (int i = 0; i < n; i++) {
                tiles[0][i] = tiles[0][i] == scratch[0][i] ? 1 : 0;
            }
        });
        return CpuTensor.of(equal);
    }

    /** Turns {@code g} into the gradient of x. */
    private static void gradient(Reduce op, float[] g, float[] x, float[] y, float[] equal, int n) {
        switch (op.kind()) {
            case ReduceL1 -> {
                for (int i = 0; i < n; i++) {
                    g[i] *= Math.signum(x[i]);
                }
            }
            case ReduceL2 -> {
                for (int i = 0; i < n; i++) {
                    g[i] = y[i] == 0 ? 0 : g[i] * x[i] / y[i];
                }
            }
            case ReduceLogSum -> {
                VectorMath.exp(y, 0, y, 0, n);
                for (int i = 0; i < n; i++) {
                    g[i] /= y[i];
                }
            }
            case ReduceLogSumExp -> {
                for (int i = 0; i < n; i++) {
                    x[i] -= y[i];
                }
                VectorMath.exp(x, 0, x, 0, n);
                for (int i = 0; i < n; i++) {
                    g[i] *= x[i];
                }
            }
            case ReduceMax, ReduceMin -> {
                for (int i = 0; i < n; i++) {
                    g[i] = x[i] == y[i] ? g[i] / equal[i] : 0;
                }
            }
            case ReduceMean -> {
                float terms = op.terms();
                for (int i = 0; i < n; i++) {
                    g[i] /= terms;
                }
            }
            case ReduceSum -> {}
            case ReduceSumSquare -> {
                for (int i = 0; i < n; i++) {
                    g[i] *= 2 * x[i];
                }
            }
        }
    }
}
