package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import java.lang.foreign.Arena;
import java.util.Arrays;

/** One product each. {@code alpha} is 1 in nearly every model; where it is not, a scaled copy of the smaller side is made. */
final class GemmCpu implements CpuKernel<Gemm> {
    @Override
    public void forward(Gemm op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor a = frame.input(0);
        CpuTensor y = frame.output(0);
        if (op.c() != null) {
            spread(op, frame.input(2), y, cpu);
        }
        try (Arena arena = Arena.ofShared()) {
            CpuTensor left = op.alpha() == 1 ? a : scaled(a, op.alpha(), arena, cpu);
            multiply(op.transA(), op.transB(), left, frame.input(1), y, op.m(), op.n(), op.k(), op.c() != null, cpu);
        }
    }

    @Override
    public void backward(Gemm op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        try (Arena arena = Arena.ofShared()) {
            boolean products = frame.wantsGradient(0) || frame.wantsGradient(1);
            CpuTensor up = op.alpha() == 1 || !products ? dy : scaled(dy, op.alpha(), arena, cpu);
            if (frame.wantsGradient(0)) {
                leftGradient(op, frame, up, cpu);
            }
            if (frame.wantsGradient(1)) {
                rightGradient(op, frame, up, cpu);
            }
        }
        if (op.c() != null && frame.wantsGradient(2)) {
            gather(op, dy, frame.gradient(2), frame.accumulates(2), cpu);
        }
    }

    private static void leftGradient(Gemm op, Frame<CpuTensor> frame, CpuTensor up, CpuContext cpu) {
        CpuTensor b = frame.input(1);
        CpuTensor da = frame.gradient(0);
        boolean accumulate = frame.accumulates(0);
        if (op.transA()) { // a lies as [k, m]: its gradient is op(b)·dyᵀ
            multiply(op.transB(), true, b, up, da, op.k(), op.m(), op.n(), accumulate, cpu);
        } else {
            multiply(false, !op.transB(), up, b, da, op.m(), op.k(), op.n(), accumulate, cpu);
        }
    }

    private static void rightGradient(Gemm op, Frame<CpuTensor> frame, CpuTensor up, CpuContext cpu) {
        CpuTensor a = frame.input(0);
        CpuTensor db = frame.gradient(1);
        boolean accumulate = frame.accumulates(1);
        if (op.transB()) { // b lies as [n, k]: its gradient is dyᵀ·op(a)
            multiply(true, op.transA(), up, a, db, op.n(), op.k(), op.m(), accumulate, cpu);
        } else {
            multiply(!op.transA(), false, a, up, db, op.k(), op.n(), op.m(), accumulate, cpu);
        }
    }

    private static void multiply(
            boolean transA,
            boolean transB,
            CpuTensor a,
            CpuTensor b,
            CpuTensor c,
            int m,
            int n,
            int k,
            boolean accumulate,
            CpuContext cpu) {
        Call call = Call.of(transA, transB, m, n, k, a.dtype(), c.dtype(), accumulate);
        cpu.gemm().shared(call, a.bytes(), b.bytes(), c.bytes(), cpu.parallel());
    }

    private static CpuTensor scaled(CpuTensor x, float factor, Arena arena, CpuContext cpu) {
        CpuTensor to = new CpuTensor(x.type(), arena.allocate(x.type().byteSize(), 64));
        cpu.parallel().ranges(x.count(), CpuContext.TILE, (from, end) -> {
            float[] tile = new float[(int) (end - from)];
            x.read(from, tile, 0, tile.length);
            scale(tile, factor);
            to.write(from, tile, 0, tile.length);
        });
        return to;
    }

    private static void scale(float[] values, float factor) {
        if (factor != 1) {
            for (int i = 0; i < values.length; i++) {
                values[i] *= factor;
            }
        }
    }

    /** y = beta·c, broadcast. */
    private static void spread(Gemm op, CpuTensor c, CpuTensor y, CpuContext cpu) {
        cpu.parallel().pieces(op.m(), i -> {
            float[] row = new float[op.n()];
            c.read(op.rowsOfC() == 1 ? 0 : (long) i * op.columnsOfC(), row, 0, op.columnsOfC());
            if (op.columnsOfC() == 1) {
                Arrays.fill(row, row[0]);
            }
            scale(row, op.beta());
            y.write((long) i * op.n(), row, 0, op.n());
        });
    }

    /** dc = beta · the sum of dy over what c was broadcast along. */
    private static void gather(Gemm op, CpuTensor dy, CpuTensor dc, boolean accumulate, CpuContext cpu) {
        if (op.rowsOfC() == 1 && op.columnsOfC() == op.n() && op.beta() == 1) {
            Rows.sum(dy, dc, op.m(), op.n(), accumulate, cpu.parallel());
            return;
        }
        // rare and small: the sum of all rows, then of the columns, in the calling thread
        int n = op.n();
        double[] sums = new double[op.rowsOfC() * op.columnsOfC()];
        float[] row = new float[n];
        for (int i = 0; i < op.m(); i++) {
            dy.read((long) i * n, row, 0, n);
            int start = op.rowsOfC() == 1 ? 0 : i * op.columnsOfC();
            for (int j = 0; j < n; j++) {
                sums[op.columnsOfC() == 1 ? start : start + j] += row[j];
            }
        }
        float[] all = new float[sums.length];
        if (accumulate) {
            dc.read(0, all, 0, all.length);
        }
        for (int i = 0; i < all.length; i++) {
            all[i] += (float) (op.beta() * sums[i]);
        }
        dc.write(0, all, 0, all.length);
    }
}
