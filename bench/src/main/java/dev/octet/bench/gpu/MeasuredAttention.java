package dev.octet.bench.gpu;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import java.util.ArrayList;
import java.util.List;

/** Causal attention of noise in BF16 by the library, heads side by side: as a step has it, and so comparable with the kernels of a step's table. */
record MeasuredAttention(int batch, int heads, int keyHeads, int rows, int size, boolean backward) {
    private CudaAttention described(long[] at) {
        CudaAttention a = new CudaAttention(
                DType.BF16,
                new Shape(batch, heads, keyHeads, rows, rows, size),
                true,
                (float) (1 / Math.sqrt(size)),
                rows(at[0], heads),
                rows(at[1], keyHeads),
                rows(at[2], keyHeads),
                rows(at[3], heads),
                at[8],
                0,
                null);
        return backward
                ? a.backward(new Gradients(
                        rows(at[4], heads), rows(at[5], heads), rows(at[6], keyHeads), rows(at[7], keyHeads)))
                : a;
    }

    private Rows rows(long address, int count) {
        return new Rows(address, (long) rows * count * size, size, (long) count * size);
    }

    private static final long[] NOWHERE = {256, 256, 256, 256, 256, 256, 256, 256, 256};

    double flops() {
        return described(NOWHERE).flops();
    }

    /** Bytes that the library works in. */
    long workspaceBytes(Gpu gpu) {
        return gpu.attentionBytes(described(NOWHERE))
                .orElseThrow(() -> new UnavailableException(
                        "no library computes " + described(NOWHERE).name(),
                        gpu.info().versions(),
                        "start java with -Doctet.cuda.attention=cudnn; the log has the library's reason"));
    }

    double micros(Gpu gpu, Timing timing) {
        long ofQueries = (long) batch * heads * rows * size;
        long ofKeys = (long) batch * keyHeads * rows * size;
        long bytes = workspaceBytes(gpu);
        List<Long> all = new ArrayList<>();
        for (long elements : new long[] {ofQueries, ofKeys, ofKeys, ofQueries, ofQueries, ofQueries, ofKeys, ofKeys}) {
            all.add(Noise.of(gpu, DType.BF16, elements));
        }
        // as large as probabilities are small: log(rows), about
        all.add(Noise.of(gpu, DType.BF16, 2L * batch * heads * rows));
        all.add(gpu.allocate(Math.max(1, bytes), "a workspace"));
        long[] at = all.stream().mapToLong(x -> x).toArray();
        double micros = timing.micros(gpu, gpu.attention(described(at), at[9]));
        all.forEach(gpu::release);
        return micros;
    }
}
