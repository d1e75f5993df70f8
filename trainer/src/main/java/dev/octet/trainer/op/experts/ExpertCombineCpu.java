package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/** Token by token. Sums are F32 in the order of the choices; products of gradients with rows are F64. */
final class ExpertCombineCpu implements CpuKernel<ExpertCombine> {
    @Override
    public void forward(ExpertCombine op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor rows = frame.input(0);
        MemorySegment places = frame.input(1).bytes();
        CpuTensor weights = frame.input(2);
        CpuTensor y = frame.output(0);
        int size = op.size();
        int choices = op.choices();
        cpu.parallel().ranges(op.tokens(), grain(op), (from, end) -> {
            float[] sum = new float[size];
            float[] row = new float[size];
            for (long token = from; token < end; token++) {
                Arrays.fill(sum, 0);
                for (long slot = token * choices; slot < (token + 1) * choices; slot++) {
                    float weight = (float) weights.readNumber(slot);
                    rows.read(places.get(Tensor.I64_LE, 8 * slot) * size, row, 0, size);
                    for (int i = 0; i < size; i++) {
                        sum[i] += weight * row[i];
                    }
                }
                y.write(token * size, sum, 0, size);
            }
        });
    }

    @Override
    public void backward(ExpertCombine op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        MemorySegment places = frame.input(1).bytes();
        int size = op.size();
        int choices = op.choices();
        cpu.parallel().ranges(op.tokens(), grain(op), (from, end) -> {
            float[] up = new float[size];
            float[] row = new float[size];
            for (long token = from; token < end; token++) {
                dy.read(token * size, up, 0, size);
                for (long slot = token * choices; slot < (token + 1) * choices; slot++) {
                    long at = places.get(Tensor.I64_LE, 8 * slot) * size;
                    if (frame.wantsGradient(2)) {
                        frame.input(0).read(at, row, 0, size);
                        frame.gradient(2).writeNumber(slot, product(up, row));
                    }
                    if (frame.wantsGradient(0)) {
                        float weight = (float) frame.input(2).readNumber(slot);
                        for (int i = 0; i < size; i++) {
                            row[i] = weight * up[i];
                        }
                        frame.gradient(0).write(at, row, 0, size);
                    }
                }
            }
        });
    }

    private static double product(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += (double) a[i] * b[i];
        }
        return sum;
    }

    private static long grain(ExpertCombine op) {
        return Math.max(1, CpuContext.GRAIN / Math.max(1, op.size()));
    }
}
