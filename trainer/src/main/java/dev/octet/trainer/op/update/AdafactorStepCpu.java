package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.rule.AdafactorRule;

/**
 * Elements in F32, sums in F64, added piece by piece in order. Three passes over the gradient: the moments, the size of the update, the update; u is computed anew
 * in the third, so that nothing of the parameter's size is kept.
 */
final class AdafactorStepCpu implements CpuKernel.Forward<AdafactorStep> {
    /** Most pieces that a matrix is cut into: each has sums for all columns. */
    private static final long PIECES = 64;

    @Override
    public void forward(AdafactorStep op, Frame<CpuTensor> frame, CpuContext cpu) {
        if (scalar(frame, 5) != 0) {
            for (int j = 0; j < op.kept(); j++) {
                keep(frame, AdafactorStep.input(j), j);
            }
            return;
        }
        // an element each: a vector is a matrix of one row whose second moment is not factored
        long columns = op.factors()
                ? AdafactorShapes.of(op.p()).columns()
                : Math.min(op.p().count(), CpuContext.TILE);
        if (op.p().count() == 0) {
            return;
        }
        new Work(op, frame, cpu, Math.toIntExact(columns)).run();
    }

    /** One step of a tensor. */
    private static final class Work {
        private final AdafactorStep op;
        private final AdafactorRule rule;
        private final Frame<CpuTensor> frame;
        private final CpuContext cpu;
        private final CpuTensor g;
        private final int columns;
        private final long allRows;
        private final double t;
        private final float factor;
        private final float beta;
        private final float weight;
        /** Of each row: its second moment over the mean of its matrix's rows. */
        private final float[] row;
        /** Of each column of each matrix: its second moment. */
        private final float[] col;

        Work(AdafactorStep op, Frame<CpuTensor> frame, CpuContext cpu, int columns) {
            this.op = op;
            this.rule = op.rule();
            this.frame = frame;
            this.cpu = cpu;
            this.g = frame.input(1);
            this.columns = columns;
            this.allRows = Math.ceilDiv(op.p().count(), (long) columns);
            this.t = scalar(frame, 3);
            this.factor = scalar(frame, 4);
            this.beta = (float) rule.kept(t);
            this.weight = (float) (1 - rule.kept(t));
            boolean factors = op.factors();
            this.row = new float[factors ? Math.toIntExact(allRows) : 0];
            this.col = new float
                    [factors ? Math.toIntExact(AdafactorShapes.of(op.p()).batch() * columns) : 0];
        }

        void run() {
            double squaresOfP = op.rule().scaleParameter() ? op.of().sums(sum(this::squaresOfP))[0] : 0;
            if (op.factors()) {
                AdafactorShapes shapes = AdafactorShapes.of(op.p());
                for (int b = 0; b < shapes.batch(); b++) {
                    moments(b, Math.toIntExact(shapes.rows()));
                }
                frame.output(op.second() + 1).write(0, col, 0, col.length);
            } else {
                sum(this::vectorMoment);
            }
            long count = op.of().whole().elementCount();
            double lr = scalar(frame, 2);
            double rate = rule.rate(lr, t, squaresOfP, count);
            float size = (float) (rate * rule.clipping(op.of().sums(sum(this::squaresOfUpdate))[0], count));
            float shrink = (float) rule.shrink(lr, rate, op.weightDecay());
            sum((at, r, n) -> update(at, r, n, size, shrink));
        }

        /** Works on one row; returns a sum over its elements. */
        private interface Row {
            double of(long at, long row, int n);
        }

        /** Rows of a piece: enough work for a thread, and few pieces. */
        private long rowsOfPiece(long rows) {
            return Math.max(Math.ceilDiv(rows, PIECES), Math.ceilDiv(UpdateCpu.GRAIN, (long) columns));
        }

        private double sum(Row body) {
            long grain = rowsOfPiece(allRows);
            double[] sums = new double[Math.toIntExact(Math.ceilDiv(allRows, grain))];
            cpu.parallel().ranges(allRows, grain, (from, to) -> {
                double sum = 0;
                for (long r = from; r < to; r++) {
                    long at = r * columns;
                    sum += body.of(at, r, (int) Math.min(columns, op.p().count() - at));
                }
                sums[(int) (from / grain)] = sum;
            });
            double all = 0;
            for (double s : sums) {
                all += s;
            }
            return all;
        }

        private double squaresOfP(long at, long r, int n) {
            float[] p = new float[n];
            frame.input(0).read(at, p, 0, n);
            double sum = 0;
            for (float x : p) {
                sum += (double) x * x;
            }
            return sum;
        }

        private float[] gradient(long at, int n) {
            float[] x = new float[n];
            g.read(at, x, 0, n);
            for (int i = 0; i < n; i++) {
                x[i] *= factor;
            }
            return x;
        }

        private void moments(int matrix, int rows) {
            long grain = rowsOfPiece(rows);
            double[][] sums = new double[Math.toIntExact(Math.ceilDiv((long) rows, grain))][columns];
            long first = (long) matrix * rows;
            double[] own = new double[rows];
            float[] kept = new float[rows];
            CpuTensor old = frame.input(AdafactorStep.input(op.second()));
            old.read(first, kept, 0, rows);
            cpu.parallel().ranges(rows, grain, (from, to) -> {
                double[] mine = sums[(int) (from / grain)];
                for (int r = (int) from; r < to; r++) {
                    float[] x = gradient((first + r) * columns, columns);
                    double sum = 0;
                    for (int j = 0; j < columns; j++) {
                        double square = (double) x[j] * x[j];
                        sum += square;
                        mine[j] += square;
                    }
                    own[r] = sum;
                }
            });
            double[] ofRows = op.ofRows(own);
            double mean = 0;
            for (int r = 0; r < rows; r++) {
                kept[r] = beta * kept[r] + weight * (float) (ofRows[r] / op.allColumns() + rule.added());
                mean += kept[r];
            }
            mean = Math.max(op.ofColumns(mean)[0] / op.allRows(), rule.leastMean());
            frame.output(op.second()).write(first, kept, 0, rows);
            for (int r = 0; r < rows; r++) {
                row[Math.toIntExact(first) + r] = (float) (kept[r] / mean);
            }
            int at = matrix * columns;
            frame.input(AdafactorStep.input(op.second() + 1)).read(at, col, at, columns);
            double[] ofColumns = new double[columns];
            for (int j = 0; j < columns; j++) {
                for (double[] piece : sums) {
                    ofColumns[j] += piece[j];
                }
            }
            ofColumns = op.ofColumns(ofColumns);
            for (int j = 0; j < columns; j++) {
                col[at + j] = beta * col[at + j] + weight * (float) (ofColumns[j] / op.allRows() + rule.added());
            }
        }

        private double vectorMoment(long at, long r, int n) {
            float[] x = gradient(at, n);
            float[] v = new float[n];
            frame.input(AdafactorStep.input(op.second())).read(at, v, 0, n);
            float added = (float) rule.added();
            for (int i = 0; i < n; i++) {
                v[i] = beta * v[i] + weight * (x[i] * x[i] + added);
            }
            frame.output(op.second()).write(at, v, 0, n);
            return 0;
        }

        /** The update before it is clipped. */
        private float[] direction(long at, long r, int n) {
            float[] x = gradient(at, n);
            float least = (float) rule.leastMoment();
            if (op.factors()) {
                float mine = row[(int) r];
                int first = (int) (r / (allRows / (col.length / columns))) * columns;
                for (int j = 0; j < n; j++) {
                    x[j] = inverse(x[j], mine, col[first + j], least);
                }
            } else {
                float[] v = new float[n];
                frame.output(op.second()).read(at, v, 0, n);
                for (int i = 0; i < n; i++) {
                    x[i] = x[i] / (float) Math.sqrt(Math.max(v[i], least));
                }
            }
            return x;
        }

        /** The product of two moments may leave the range of F32, their roots' does not. */
        private static float inverse(float x, float row, float col, float least) {
            return least > 0
                    ? x / (float) Math.sqrt(Math.max(row * col, least))
                    : x * (1 / (float) Math.sqrt(row)) * (1 / (float) Math.sqrt(col));
        }

        private double squaresOfUpdate(long at, long r, int n) {
            double sum = 0;
            for (float x : direction(at, r, n)) {
                sum += (double) x * x;
            }
            return sum;
        }

        private double update(long at, long r, int n, float size, float shrink) {
            float[] u = direction(at, r, n);
            for (int i = 0; i < n; i++) {
                u[i] *= size;
            }
            if (rule.hasMoment()) {
                float[] m = new float[n];
                frame.input(AdafactorStep.BUFFERS).read(at, m, 0, n);
                float beta1 = (float) rule.beta1().getAsDouble();
                float weight1 = (float) (1 - rule.beta1().getAsDouble());
                for (int i = 0; i < n; i++) {
                    m[i] = m[i] * beta1 + weight1 * u[i];
                    u[i] = m[i];
                }
                frame.output(1).write(at, m, 0, n);
            }
            float[] p = new float[n];
            frame.input(0).read(at, p, 0, n);
            for (int i = 0; i < n; i++) {
                p[i] = p[i] * shrink - u[i];
            }
            frame.output(0).write(at, p, 0, n);
            return 0;
        }
    }
}
