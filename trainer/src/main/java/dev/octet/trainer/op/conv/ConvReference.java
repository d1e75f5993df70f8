package dev.octet.trainer.op.conv;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** y is a sum of x·w over the taps of each output; each such product gives its share to the gradients of x and w. */
final class ConvReference implements ReferenceKernel<Conv> {
    /** One product of the sum: elements of y, x and w. */
    private interface Tap {
        void accept(int y, int x, int w);
    }

    @Override
    public void forward(Conv op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = op.hasBias() ? frame.input(2)[i / op.outPlane() % op.filters()] : 0;
        }
        double[] x = frame.input(0);
        double[] w = frame.input(1);
        forEach(op, (iy, ix, iw) -> y[iy] += x[ix] * w[iw]);
    }

    @Override
    public void backward(Conv op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        if (frame.wantsGradient(0)) {
            forEach(op, (iy, ix, iw) -> frame.gradient(0)[ix] += dy[iy] * frame.input(1)[iw]);
        }
        if (frame.wantsGradient(1)) {
            forEach(op, (iy, ix, iw) -> frame.gradient(1)[iw] += dy[iy] * frame.input(0)[ix]);
        }
        if (op.hasBias() && frame.wantsGradient(2)) {
            for (int i = 0; i < dy.length; i++) {
                frame.gradient(2)[i / op.outPlane() % op.filters()] += dy[i];
            }
        }
    }

    private static void forEach(Conv op, Tap tap) {
        for (int n = 0; n < op.batch(); n++) {
            for (int f = 0; f < op.filters(); f++) {
                for (int c = 0; c < op.groupChannels(); c++) {
                    int channel = f / op.groupFilters() * op.groupChannels() + c;
                    int x = (n * op.channels() + channel) * op.inPlane();
                    int w = (f * op.groupChannels() + c)
                            * op.rows().kernel()
                            * op.columns().kernel();
                    forPlane(op, (n * op.filters() + f) * op.outPlane(), x, w, tap);
                }
            }
        }
    }

    private static void forPlane(Conv op, int y, int x, int w, Tap tap) {
        Window rows = op.rows();
        Window columns = op.columns();
        for (int r = 0; r < rows.out(); r++) {
            for (int c = 0; c < columns.out(); c++) {
                for (int i = 0; i < rows.kernel(); i++) {
                    for (int j = 0; j < columns.kernel(); j++) {
                        int row = rows.at(r, i);
                        int column = columns.at(c, j);
                        if (row >= 0 && row < rows.in() && column >= 0 && column < columns.in()) {
                            tap.accept(
                                    y + r * columns.out() + c,
                                    x + row * columns.in() + column,
                                    w + i * columns.kernel() + j);
                        }
                    }
                }
            }
        }
    }
}
