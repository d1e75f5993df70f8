package dev.octet.trainer.op.topk;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Line by line: each element that is better than the last of the best so far is inserted among them, which stay in order. */
final class TopKCpu implements CpuKernel<TopK> {
    @Override
    public void forward(TopK op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        long inner = op.inner();
        int k = op.k();
        cpu.parallel().ranges(op.lines(), grain(op), (first, end) -> {
            double[] best = new double[k];
            int[] indices = new int[k];
            for (long line = first; line < end; line++) {
                long from = op.start(line, op.size());
                int found = 0;
                for (int i = 0; i < op.size(); i++) {
                    double value = x.readNumber(from + i * inner);
                    if (found < k || op.isBetter(value, best[k - 1])) {
                        found = Math.min(k, found + 1);
                        insert(op, value, i, best, indices, found);
                    }
                }
                long to = op.start(line, k);
                for (int place = 0; place < k; place++) {
                    frame.output(0).writeNumber(to + place * inner, best[place]);
                    frame.output(1).bytes().set(Tensor.I64_LE, 8 * (to + place * inner), indices[place]);
                }
            }
        });
    }

    /** Puts an element among the best, of which the last of {@code n} places is free. */
    private static void insert(TopK op, double value, int index, double[] best, int[] indices, int n) {
        int low = 0;
        int high = n - 1;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (op.isBetter(value, best[middle])) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        System.arraycopy(best, low, best, low + 1, n - 1 - low);
        System.arraycopy(indices, low, indices, low + 1, n - 1 - low);
        best[low] = value;
        indices[low] = index;
    }

    private static long grain(TopK op) {
        return Math.max(1, CpuContext.GRAIN / Math.max(1, op.size()));
    }

    @Override
    public void backward(TopK op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dx = frame.gradient(0);
        dx.bytes().fill((byte) 0);
        if (!frame.hasUpstream(0)) {
            return;
        }
        CpuTensor dy = frame.upstream(0);
        long inner = op.inner();
        cpu.parallel().ranges(op.lines(), grain(op), (first, end) -> {
            for (long line = first; line < end; line++) {
                long from = op.start(line, op.size());
                long to = op.start(line, op.k());
                for (int place = 0; place < op.k(); place++) {
                    long at = to + place * inner;
                    long index = frame.output(1).bytes().get(Tensor.I64_LE, 8 * at);
                    dx.writeNumber(from + index * inner, dy.readNumber(at));
                }
            }
        });
    }
}
