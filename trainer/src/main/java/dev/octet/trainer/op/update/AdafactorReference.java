package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.rule.AdafactorRule;

/** {@link AdafactorStep} as it is written there. */
final class AdafactorReference {
    private AdafactorReference() {}

    static void step(AdafactorStep op, Frame<double[]> frame) {
        for (int j = 0; j < op.kept(); j++) {
            double[] old = frame.input(AdafactorStep.input(j));
            System.arraycopy(old, 0, frame.output(j), 0, old.length);
        }
        if (frame.input(5)[0] != 0) {
            return;
        }
        double t = frame.input(3)[0];
        double[] g = new double[frame.input(1).length];
        for (int i = 0; i < g.length; i++) {
            g[i] = frame.input(1)[i] * frame.input(4)[0];
        }
        double[] u = op.factors() ? ofMatrix(op, frame, g, t) : ofVector(op, frame.output(op.second()), g, t);
        AdafactorRule rule = op.rule();
        double[] p = frame.output(0);
        double lr = frame.input(2)[0];
        long count = op.of().whole().elementCount();
        double rate = rule.rate(lr, t, op.of().sums(squares(p))[0], count);
        double size = rate * rule.clipping(op.of().sums(squares(u))[0], count);
        double shrink = rule.shrink(lr, rate, op.weightDecay());
        for (int i = 0; i < p.length; i++) {
            double update = size * u[i];
            if (rule.hasMoment()) {
                double[] m = frame.output(1);
                double beta1 = rule.beta1().getAsDouble();
                m[i] = beta1 * m[i] + (1 - beta1) * update;
                update = m[i];
            }
            p[i] = p[i] * shrink - update;
        }
    }

    private static double[] ofVector(AdafactorStep op, double[] v, double[] g, double t) {
        double beta = op.rule().kept(t);
        double[] u = new double[g.length];
        for (int i = 0; i < g.length; i++) {
            v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + op.rule().added());
            u[i] = g[i] / Math.sqrt(Math.max(v[i], op.rule().leastMoment()));
        }
        return u;
    }

    private static double[] ofMatrix(AdafactorStep op, Frame<double[]> frame, double[] g, double t) {
        AdafactorShapes shapes = AdafactorShapes.of(op.p());
        int rows = (int) shapes.rows();
        int columns = (int) shapes.columns();
        double beta = op.rule().kept(t);
        double[] row = frame.output(op.second());
        double[] col = frame.output(op.second() + 1);
        double[] u = new double[g.length];
        for (int b = 0; b < shapes.batch(); b++) {
            double[] rowSums = new double[rows];
            double[] colSums = new double[columns];
            for (int i = 0; i < rows; i++) {
                for (int j = 0; j < columns; j++) {
                    double x = g[(b * rows + i) * columns + j];
                    rowSums[i] += x * x + op.rule().added();
                    colSums[j] += x * x + op.rule().added();
                }
            }
            rowSums = op.ofRows(rowSums);
            colSums = op.ofColumns(colSums);
            double mean = 0;
            for (int i = 0; i < rows; i++) {
                row[b * rows + i] = beta * row[b * rows + i] + (1 - beta) * rowSums[i] / op.allColumns();
                mean += row[b * rows + i] / op.allRows();
            }
            mean = op.ofColumns(mean)[0];
            for (int j = 0; j < columns; j++) {
                col[b * columns + j] = beta * col[b * columns + j] + (1 - beta) * colSums[j] / op.allRows();
            }
            for (int i = 0; i < rows; i++) {
                for (int j = 0; j < columns; j++) {
                    int at = (b * rows + i) * columns + j;
                    double v = row[b * rows + i]
                            * col[b * columns + j]
                            / Math.max(mean, op.rule().leastMean());
                    u[at] = g[at] / Math.sqrt(Math.max(v, op.rule().leastMoment()));
                }
            }
        }
        return u;
    }

    private static double squares(double[] x) {
        double sum = 0;
        for (double each : x) {
            sum += each * each;
        }
        return sum;
    }
}
