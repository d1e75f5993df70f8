package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import java.lang.foreign.MemorySegment;

/** Slots are counted by expert and given their rows in order, which one thread does; rows are copied, and gradients summed, by all. */
final class ExpertDispatchCpu implements CpuKernel<ExpertDispatch> {
    @Override
    public void forward(ExpertDispatch op, Frame<CpuTensor> frame, CpuContext cpu) {
        int[] chosen = Indices.resolve(op.node(), frame.input(1), op.experts());
        int[] next = new int[op.experts() + 1];
        for (int e : chosen) {
            next[e + 1]++;
        }
        for (int e = 0; e < op.experts(); e++) {
            next[e + 1] += next[e];
        }
        MemorySegment offsets = frame.output(2).bytes();
        for (int e = 0; e < next.length; e++) {
            offsets.set(Tensor.I64_LE, 8L * e, next[e]);
        }
        MemorySegment places = frame.output(1).bytes();
        for (int slot = 0; slot < chosen.length; slot++) {
            places.set(Tensor.I64_LE, 8L * slot, next[chosen[slot]]++);
        }
        MemorySegment x = frame.input(0).bytes();
        MemorySegment rows = frame.output(0).bytes();
        long bytes = (long) op.size() * op.x().dtype().bits() / 8;
        cpu.parallel().ranges(chosen.length, grain(op), (from, end) -> {
            for (long slot = from; slot < end; slot++) {
                long row = places.get(Tensor.I64_LE, 8 * slot);
                MemorySegment.copy(x, slot / op.choices() * bytes, rows, row * bytes, bytes);
            }
        });
    }

    @Override
    public void backward(ExpertDispatch op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dx = frame.gradient(0);
        if (!frame.hasUpstream(0) || op.choices() == 0) {
            dx.bytes().fill((byte) 0);
            return;
        }
        CpuTensor drows = frame.upstream(0);
        MemorySegment places = frame.output(1).bytes();
        int size = op.size();
        int choices = op.choices();
        cpu.parallel().ranges(op.tokens(), grain(op), (from, end) -> {
            float[] sum = new float[size];
            float[] more = new float[size];
            for (long token = from; token < end; token++) {
                for (int j = 0; j < choices; j++) {
                    long row = places.get(Tensor.I64_LE, 8 * (token * choices + j));
                    drows.read(row * size, j == 0 ? sum : more, 0, size);
                    for (int i = 0; j > 0 && i < size; i++) {
                        sum[i] += more[i];
                    }
                }
                dx.write(token * size, sum, 0, size);
            }
        });
    }

    private static long grain(ExpertDispatch op) {
        return Math.max(1, CpuContext.GRAIN / Math.max(1, op.size()));
    }
}
