package dev.octet.trainer.op.norm;

import dev.octet.trainer.kernel.ColumnSums;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** A row is read once forward, and x and dy once backward; rows go through arrays that stay in the first cache. */
final class RowNormCpu implements CpuKernel<RowNorm> {
    @Override
    public void forward(RowNorm op, Frame<CpuTensor> frame, CpuContext cpu) {
        int n = op.size();
        float[] w = whole(frame.input(1));
        float @Nullable [] b = frame.hasInput(2) ? whole(frame.input(2)) : null;
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        cpu.parallel().ranges(op.rows(), grain(n), (from, to) -> {
            float[] row = new float[n];
            float[] one = new float[1];
            for (long r = from; r < to; r++) {
                x.read(r * n, row, 0, n);
                if (op.centred()) {
                    one[0] = VectorMath.sum(row, 0, n) / n;
                    frame.output(1).write(r, one, 0, 1);
                    shift(row, n, one[0]);
                }
                float deviation = deviation(VectorMath.dot(row, 0, row, 0, n) / n, op.epsilon());
                one[0] = deviation;
                frame.output(op.deviationOutput()).write(r, one, 0, 1);
                scale(row, n, deviation, w, b);
                y.write(r * n, row, 0, n);
            }
        });
    }

    /** 1 / sqrt(variance + epsilon), through F64: once a row, and right to the last bit but one. */
    private static float deviation(float variance, float epsilon) {
        return (float) (1 / Math.sqrt((double) variance + epsilon));
    }

    private static void shift(float[] row, int n, float mean) {
        for (int i = 0; i < n; i++) {
            row[i] -= mean;
        }
    }

    private static void scale(float[] row, int n, float r, float[] w, float @Nullable [] b) {
        if (b == null) {
            for (int i = 0; i < n; i++) {
                row[i] = row[i] * r * w[i];
            }
        } else {
            for (int i = 0; i < n; i++) {
                row[i] = row[i] * r * w[i] + b[i];
            }
        }
    }

    private static float[] whole(CpuTensor t) {
        float[] all = new float[Math.toIntExact(t.count())];
        t.read(0, all, 0, all.length);
        return all;
    }

    /** Rows of a piece: some tiles, so that starting a piece costs nothing next to it. */
    private static long grain(int n) {
        return Math.max(1, 8 * CpuContext.TILE / Math.max(1, n));
    }

    @Override
    public void backward(RowNorm op, Frame<CpuTensor> frame, CpuContext cpu) {
        ColumnSums dw = new ColumnSums(op.rows(), op.size());
        ColumnSums db = new ColumnSums(op.rows(), op.size());
        float[] w = whole(frame.input(1));
        cpu.parallel()
                .pieces(
                        ColumnSums.pieces(op.rows()),
                        p -> new BackwardPiece(op, frame, w, dw.of(p), db.of(p))
                                .run(ColumnSums.start(op.rows(), p), ColumnSums.start(op.rows(), p + 1)));
        if (frame.wantsGradient(1)) {
            dw.write(frame.gradient(1));
        }
        if (frame.wantsGradient(2)) {
            db.write(frame.gradient(2));
        }
    }

    /** Some rows' part of the backward half. */
    private static final class BackwardPiece {
        private final RowNorm op;
        private final Frame<CpuTensor> frame;
        private final float[] w;
        private final float[] dw;
        private final float[] db;
        private final float[] normal;
        private final float[] g;
        private final float[] one = new float[1];

        BackwardPiece(RowNorm op, Frame<CpuTensor> frame, float[] w, float[] dw, float[] db) {
            this.op = op;
            this.frame = frame;
            this.w = w;
            this.dw = dw;
            this.db = db;
            this.normal = new float[op.size()];
            this.g = new float[op.size()];
        }

        void run(int from, int to) {
            for (int row = from; row < to; row++) {
                row(row);
            }
        }

        private float perRow(CpuTensor t, int row) {
            t.read(row, one, 0, 1);
            return one[0];
        }

        private void row(int row) {
            int n = op.size();
            long start = (long) row * n;
            float r = perRow(frame.output(op.deviationOutput()), row);
            frame.input(0).read(start, normal, 0, n);
            normalise(normal, op.centred() ? perRow(frame.output(1), row) : 0, r);
            if (frame.hasUpstream(0)) {
                frame.upstream(0).read(start, g, 0, n);
                columns(g, normal, w, dw, db);
            } else {
                Arrays.fill(g, 0);
            }
            if (frame.wantsGradient(0)) {
                float meanG = op.centred() ? VectorMath.sum(g, 0, n) / n : 0;
                float meanGNormal = VectorMath.dot(g, 0, normal, 0, n) / n;
                float fromMean = op.centred() && frame.hasUpstream(1) ? perRow(frame.upstream(1), row) / n : 0;
                int d = op.deviationOutput();
                float fromDeviation = frame.hasUpstream(d) ? perRow(frame.upstream(d), row) * r * r / n : 0;
                gradient(g, normal, r, r * meanG - fromMean, r * meanGNormal + fromDeviation);
                frame.gradient(0).write(start, g, 0, n);
            }
        }

        private static void normalise(float[] x, float mean, float r) {
            for (int i = 0; i < x.length; i++) {
                x[i] = (x[i] - mean) * r;
            }
        }

        /** Adds to the sums over rows; leaves dy · w in {@code dy}. */
        private static void columns(float[] dy, float[] normal, float[] w, float[] dw, float[] db) {
            for (int i = 0; i < dy.length; i++) {
                dw[i] += dy[i] * normal[i];
            }
            for (int i = 0; i < dy.length; i++) {
                db[i] += dy[i];
            }
            for (int i = 0; i < dy.length; i++) {
                dy[i] *= w[i];
            }
        }

        private static void gradient(float[] g, float[] normal, float r, float shift, float slope) {
            for (int i = 0; i < g.length; i++) {
                g[i] = r * g[i] - shift - normal[i] * slope;
            }
        }
    }
}
