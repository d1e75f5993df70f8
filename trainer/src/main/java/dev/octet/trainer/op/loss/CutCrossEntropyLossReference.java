package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.nio.ByteBuffer;
import java.util.List;

/** Every rank gets the scores of all, and does with them what the whole loss does; of the gradient it keeps its classes. */
final class CutCrossEntropyLossReference implements ReferenceKernel<CutCrossEntropyLoss> {
    private final SoftmaxCrossEntropyLossReference whole = new SoftmaxCrossEntropyLossReference();

    @Override
    public void forward(CutCrossEntropyLoss op, Frame<double[]> frame) {
        whole.forward(new SoftmaxCrossEntropyLoss(op.all(), false, op.smoothing()), new Whole(op, frame));
    }

    @Override
    public void backward(CutCrossEntropyLoss op, Frame<double[]> frame) {
        Whole all = new Whole(op, frame);
        whole.backward(new SoftmaxCrossEntropyLoss(op.all(), false, op.smoothing()), all);
        int width = op.own().classes();
        for (int i = 0; i < frame.gradient(0).length; i++) {
            frame.gradient(0)[i] = all.gradient(0)[i / width * op.all().classes() + op.first() + i % width];
        }
    }

    /** The operands of the whole loss. */
    private static final class Whole implements Frame<double[]> {
        private final Frame<double[]> own;
        private final double[] scores;
        private final double[] gradient;

        Whole(CutCrossEntropyLoss op, Frame<double[]> own) {
            this.own = own;
            int positions = op.all().count();
            scores = new double[positions * op.all().classes()];
            gradient = new double[scores.length];
            double[] mine = own.input(0);
            ByteBuffer bytes = ByteBuffer.allocate(mine.length * Double.BYTES);
            for (double x : mine) {
                bytes.putDouble(x);
            }
            List<byte[]> each = op.ranks().gather(bytes.array());
            int before = 0;
            for (byte[] rank : each) {
                ByteBuffer read = ByteBuffer.wrap(rank);
                int width = rank.length / Double.BYTES / Math.max(1, positions);
                for (int i = 0; i < positions * width; i++) {
                    scores[i / width * op.all().classes() + before + i % width] = read.getDouble();
                }
                before += width;
            }
        }

        @Override
        public boolean hasInput(int i) {
            return own.hasInput(i);
        }

        @Override
        public double[] input(int i) {
            return i == 0 ? scores : own.input(i);
        }

        @Override
        public double[] output(int j) {
            return own.output(j);
        }

        @Override
        public boolean hasUpstream(int j) {
            return own.hasUpstream(j);
        }

        @Override
        public double[] upstream(int j) {
            return own.upstream(j);
        }

        @Override
        public boolean wantsGradient(int i) {
            return own.wantsGradient(i);
        }

        @Override
        public double[] gradient(int i) {
            return gradient;
        }

        @Override
        public boolean accumulates(int i) {
            return false;
        }
    }
}
