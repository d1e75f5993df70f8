package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CpuState;

/** Twice over the tensor, tile by tile: once for the amax of the sums, once for their codes. */
final class AccumulateCodesCpu implements CpuKernel.Forward<AccumulateCodes> {
    @Override
    public void forward(AccumulateCodes op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuState gradient = CpuState.of(op.form(), op.x(), frame::input, 0, 0);
        frame.output(1).writeNumber(0, frame.input(1).readNumber(0)); // one tensor, unless a test gives two
        CpuState sum = CpuState.of(op.form(), op.x(), frame::output, 0, 0);
        CpuTensor x = frame.input(2);
        long count = op.x().count();
        int tile = CpuContext.TILE;
        float[] amaxes = new float[Math.toIntExact(Math.ceilDiv(count, (long) tile))];
        cpu.parallel().ranges(amaxes.length, 1, (first, end) -> {
            Sums sums = new Sums(op, gradient, x);
            for (long t = first; t < end; t++) {
                int n = (int) Math.min(tile, count - t * tile);
                sums.read(t * tile, n);
                amaxes[(int) t] = CpuState.amax(sums.values, n);
            }
        });
        float amax = CpuState.amax(amaxes, amaxes.length);
        sum.rescale(Float.isNaN(amax) ? Float.POSITIVE_INFINITY : amax);
        cpu.parallel().ranges(amaxes.length, 1, (first, end) -> {
            Sums sums = new Sums(op, gradient, x);
            for (long t = first; t < end; t++) {
                int n = (int) Math.min(tile, count - t * tile);
                sums.read(t * tile, n);
                sum.write(t * tile, sums.values, n);
            }
        });
    }

    private static final class Sums {
        private final float[] values = new float[CpuContext.TILE];
        private final float[] added = new float[CpuContext.TILE];
        private final AccumulateCodes op;
        private final CpuState gradient;
        private final CpuTensor x;

        Sums(AccumulateCodes op, CpuState gradient, CpuTensor x) {
            this.op = op;
            this.gradient = gradient;
            this.x = x;
        }

        void read(long from, int n) {
            gradient.read(from, values, n);
            x.read(from, added, 0, n);
            for (int i = 0; i < n; i++) {
                float s = (float) Doubles.round(values[i] + added[i], op.rounded());
                values[i] = Float.isFinite(s) ? s : Float.NaN;
            }
        }
    }
}
