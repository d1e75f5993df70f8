package dev.octet.trainer.op.rotary;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Position by position of a sample, all heads of it with one row of the tables. */
final class RotaryEmbeddingCpu implements CpuKernel<RotaryEmbedding> {
    @Override
    public void forward(RotaryEmbedding op, Frame<CpuTensor> frame, CpuContext cpu) {
        turn(op, frame, frame.input(0), frame.output(0), 1, cpu);
    }

    @Override
    public void backward(RotaryEmbedding op, Frame<CpuTensor> frame, CpuContext cpu) {
        turn(op, frame, frame.upstream(0), frame.gradient(0), -1, cpu);
    }

    private static void turn(
            RotaryEmbedding op, Frame<CpuTensor> frame, CpuTensor x, CpuTensor y, int direction, CpuContext cpu) {
        int half = op.rotated() / 2;
        long grain = Math.max(1, 4 * CpuContext.TILE / Math.max(1, op.heads() * op.size()));
        cpu.parallel().ranges((long) op.batch() * op.sequence(), grain, (from, to) -> {
            float[] cos = new float[half];
            float[] sin = new float[half];
            float[] head = new float[op.size()];
            float[] turned = new float[op.size()];
            for (int at = (int) from; at < to; at++) {
                int b = at / op.sequence();
                int s = at % op.sequence();
                int row =
                        op.tableRow(b, s, op.tableBatch() == 0 ? frame.input(3).readLong(at) : 0);
                frame.input(1).read(row, cos, 0, half);
                frame.input(2).read(row, sin, 0, half);
                for (int i = 0; i < half; i++) {
                    sin[i] *= direction;
                }
                for (int h = 0; h < op.heads(); h++) {
                    x.read(op.start(b, h, s), head, 0, head.length);
                    turn(op, head, cos, sin, turned);
                    y.write(op.start(b, h, s), turned, 0, turned.length);
                }
            }
        });
    }

    private static void turn(RotaryEmbedding op, float[] x, float[] cos, float[] sin, float[] y) {
        for (int i = 0; i < cos.length; i++) {
            int first = op.first(i);
            int second = op.second(i);
            y[first] = x[first] * cos[i] - x[second] * sin[i];
            y[second] = x[first] * sin[i] + x[second] * cos[i];
        }
        System.arraycopy(x, op.rotated(), y, op.rotated(), x.length - op.rotated());
    }
}
