package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;

/** Position by position; the scores of one lie in arrays while they are used. Labels are checked before anything is written. */
final class KlDivergenceLossCpu implements CpuKernel<KlDivergenceLoss> {
    @Override
    public void forward(KlDivergenceLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.positions();
        float[] weights = weights(op, frame);
        float[] losses = new float[weights.length];
        float[] ofStudent = new float[weights.length];
        float[] ofTeacher = new float[weights.length];
        cpu.parallel().ranges(weights.length, SoftmaxCrossEntropyLossCpu.grain(c), (from, to) -> {
            Row row = new Row(c.classes(), op.temperature());
            for (int position = (int) from; position < to; position++) {
                if (weights[position] != 0) {
                    row.read(op, frame, position);
                    losses[position] = weights[position] * row.divergence();
                    ofStudent[position] = row.ofStudent;
                    ofTeacher[position] = row.ofTeacher;
                }
            }
        });
        frame.output(1).write(0, ofStudent, 0, ofStudent.length);
        frame.output(2).write(0, ofTeacher, 0, ofTeacher.length);
        float divisor = (float) ClassLabels.sum(weights);
        frame.output(3).write(0, new float[] {divisor}, 0, 1);
        float squared = op.temperature() * op.temperature();
        frame.output(0).write(0, new float[] {(float) (squared * ClassLabels.sum(losses) / divisor)}, 0, 1);
    }

    private static float[] weights(KlDivergenceLoss op, Frame<CpuTensor> frame) {
        if (!frame.hasInput(2)) {
            return RowWeights.of(frame, 3, op.positions().count());
        }
        int[] labels = op.positions().check(frame.input(2)::readLong);
        float[] weights = new float[labels.length];
        for (int i = 0; i < weights.length; i++) {
            weights[i] = labels[i] < 0 ? 0 : 1;
        }
        return weights;
    }

    @Override
    public void backward(KlDivergenceLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        ClassLabels c = op.positions();
        float[] weights = weights(op, frame);
        float[] ofStudent = new float[weights.length];
        float[] ofTeacher = new float[weights.length];
        frame.output(1).read(0, ofStudent, 0, ofStudent.length);
        frame.output(2).read(0, ofTeacher, 0, ofTeacher.length);
        float[] divisor = new float[1];
        frame.output(3).read(0, divisor, 0, 1);
        float[] up = new float[1];
        frame.upstream(0).read(0, up, 0, 1);
        float scale = op.temperature() * up[0] / divisor[0];
        cpu.parallel().ranges(weights.length, SoftmaxCrossEntropyLossCpu.grain(c), (from, to) -> {
            Row row = new Row(c.classes(), op.temperature());
            for (int position = (int) from; position < to; position++) {
                if (weights[position] == 0) {
                    Arrays.fill(row.x, 0);
                } else {
                    row.read(op, frame, position);
                    row.gradient(ofStudent[position], ofTeacher[position], scale * weights[position]);
                }
                c.write(frame.gradient(0), position, row.x);
            }
        });
    }

    /** The scores of a position, divided by the temperature. */
    private static final class Row {
        private final float inverse;
        private final float[] x;
        private final float[] t;
        private final float[] p;
        private final float[] difference;
        private float ofStudent;
        private float ofTeacher;

        Row(int classes, float temperature) {
            inverse = 1 / temperature;
            x = new float[classes];
            t = new float[classes];
            p = new float[classes];
            difference = new float[classes];
        }

        void read(KlDivergenceLoss op, Frame<CpuTensor> frame, int position) {
            op.positions().read(frame.input(0), position, x);
            op.positions().read(frame.input(1), position, t);
            for (int k = 0; k < x.length; k++) {
                x[k] *= inverse;
                t[k] *= inverse;
            }
        }

        /** Σ p (log p - log q), from differences of scores: those are small where the two are near, and so are the errors of their sum. */
        float divergence() {
            float max = VectorMath.max(x, 0, x.length);
            double student = max + Math.log(VectorMath.expOfDifference(x, 0, max, p, 0, x.length));
            max = VectorMath.max(t, 0, t.length);
            float sum = VectorMath.expOfDifference(t, 0, max, p, 0, t.length);
            double teacher = max + Math.log(sum);
            ofStudent = (float) student;
            ofTeacher = (float) teacher;
            float shift = (float) (student - teacher);
            for (int k = 0; k < x.length; k++) {
                difference[k] = t[k] - x[k] + shift;
            }
            float divergence = VectorMath.dot(p, 0, difference, 0, p.length) / sum;
            return Float.isNaN(divergence) ? withoutExcluded() / sum : divergence;
        }

        /** A class that the teacher excludes with -infinity is 0 times infinity, and adds nothing. */
        private float withoutExcluded() {
            double sum = 0;
            for (int k = 0; k < p.length; k++) {
                sum += p[k] == 0 ? 0 : p[k] * difference[k];
            }
            return (float) sum;
        }

        void gradient(float student, float teacher, float scale) {
            VectorMath.expOfDifference(x, 0, student, x, 0, x.length);
            VectorMath.expOfDifference(t, 0, teacher, p, 0, t.length);
            for (int k = 0; k < x.length; k++) {
                x[k] = scale * (x[k] - p[k]);
            }
        }
    }
}
