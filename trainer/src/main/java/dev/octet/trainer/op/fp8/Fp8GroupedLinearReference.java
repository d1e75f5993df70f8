package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.scale.AmaxHistory;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;

/** Expert by expert what {@link Fp8LinearReference} computes. */
public final class Fp8GroupedLinearReference implements ReferenceKernel<Fp8GroupedLinear> {
    private static final Fp8LinearReference EXPERT = new Fp8LinearReference();

    @Override
    public void forward(Fp8GroupedLinear op, Frame<double[]> frame) {
        double[] quantScales = frame.output(Fp8GroupedLinear.X_QUANT_SCALES);
        for (int e = 0; e < op.experts(); e++) {
            if (op.hasDelayedInput()) {
                quantScales[e] = frame.input(Fp8GroupedLinear.at(e, Fp8GroupedLinear.X_QUANT_SCALE))[0];
            }
            Rows rows = new Rows(op, e, frame, quantScales[e]);
            if (rows.count() > 0) {
                if (op.records() > 0) {
                    rows.record();
                }
                EXPERT.forward(rows.layer, rows);
                rows.put(frame.output(0), rows.y, op.layer().out());
            }
        }
    }

    @Override
    public void backward(Fp8GroupedLinear op, Frame<double[]> frame) {
        for (int e = 0; e < op.experts(); e++) {
            Rows rows = new Rows(op, e, frame, frame.output(Fp8GroupedLinear.X_QUANT_SCALES)[e]);
            if (rows.count() > 0) {
                EXPERT.backward(rows.layer, rows);
                if (frame.wantsGradient(Fp8GroupedLinear.X)) {
                    rows.put(
                            frame.gradient(Fp8GroupedLinear.X),
                            rows.dx,
                            op.layer().in());
                }
            }
        }
    }

    /** The operands of one expert's Linear: copies of its rows. */
    private static final class Rows implements Frame<double[]> {
        private final Fp8GroupedLinear op;
        private final int expert;
        private final Frame<double[]> all;
        private final float quantScale;
        private final int first;
        private final int end;
        private final Fp8Linear layer;
        private final double[] y;
        private final double[] dx;

        Rows(Fp8GroupedLinear op, int expert, Frame<double[]> all, double quantScale) {
            this.op = op;
            this.expert = expert;
            this.all = all;
            this.quantScale = (float) quantScale;
            this.first = (int) all.input(Fp8GroupedLinear.OFFSETS)[expert];
            this.end = (int) all.input(Fp8GroupedLinear.OFFSETS)[expert + 1];
            this.layer = op.expert(count());
            this.y = new double[count() * layer.out()];
            this.dx = new double[count() * layer.in()];
        }

        int count() {
            return end - first;
        }

        private double[] rows(double[] matrix, int columns) {
            return Arrays.copyOfRange(matrix, first * columns, end * columns);
        }

        void put(double[] matrix, double[] own, int columns) {
            System.arraycopy(own, 0, matrix, first * columns, own.length);
        }

        private double[] x() {
            return rows(all.input(Fp8GroupedLinear.X), layer.in());
        }

        void record() {
            double[] x = x();
            float amax = Doubles.amax(x, CodedMatrix.whole(1, x.length), false)[0];
            double[] to = all.output(Fp8GroupedLinear.RECORDED + expert);
            to[0] = op.hasDelayedInput() ? AmaxHistory.raised((float) history(), amax) : amax;
        }

        private double history() {
            return all.input(Fp8GroupedLinear.at(expert, Fp8GroupedLinear.X_HISTORY))[0];
        }

        private double[] cast(int i) {
            boolean own = i == Fp8Linear.X_CODES_WGRAD || i == Fp8Linear.X_SCALE_WGRAD;
            CodedMatrix form =
                    requireNonNull(own ? layer.wgrad().right() : layer.fprop().left());
            double[] x = x();
            float[] quantScales = form.rule() == null
                    ? new float[] {quantScale}
                    : Doubles.quantScales(x, form, form.rule(), layer.x().dtype());
            return i == Fp8Linear.X_CODES || i == Fp8Linear.X_CODES_WGRAD
                    ? Doubles.encode(x, form, quantScales)
                    : Doubles.scales(quantScales);
        }

        @Override
        public boolean hasInput(int i) {
            int of = Fp8GroupedLinear.of(i, expert);
            return of >= 0 && all.hasInput(of);
        }

        @Override
        public double[] input(int i) {
            if (i == Fp8Linear.X) {
                return x();
            }
            int of = Fp8GroupedLinear.of(i, expert);
            return of >= 0 ? all.input(of) : cast(i);
        }

        @Override
        public double[] output(int j) {
            return y;
        }

        @Override
        public boolean hasUpstream(int j) {
            return all.hasUpstream(j);
        }

        @Override
        public double[] upstream(int j) {
            return rows(all.upstream(j), layer.out());
        }

        @Override
        public boolean wantsGradient(int i) {
            return all.wantsGradient(Fp8GroupedLinear.of(i, expert));
        }

        @Override
        public double[] gradient(int i) {
            return i == Fp8Linear.X ? dx : all.gradient(Fp8GroupedLinear.of(i, expert));
        }

        @Override
        public boolean accumulates(int i) {
            return false;
        }
    }
}
