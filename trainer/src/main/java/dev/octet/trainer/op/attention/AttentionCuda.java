package dev.octet.trainer.op.attention;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Without a matrix of queries by keys in memory, in either direction; backward without atomic sums, so with the same bits every time. By the
 * vendor's library where there is one that takes it ({@link LibraryAttention}), on tensor cores where {@link FlashAttention#computes}, else on the ordinary units.
 */
final class AttentionCuda implements CudaKernel<Attention> {
    @Override
    public void forward(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (hasNoQueries(op)) {
            return;
        }
        if (new LibraryAttention(op, frame, cuda).forward()) {
            return;
        }
        if (FlashAttention.computes(op)) {
            new FlashAttention(op, frame, cuda).forward();
        } else {
            new PlainAttention(op, frame, cuda).forward();
        }
    }

    @Override
    public void backward(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (hasNoQueries(op) || op.keys() == 0) {
            clear(op, frame, cuda);
            return;
        }
        if (new LibraryAttention(op, frame, cuda).backward()) {
            return;
        }
        if (FlashAttention.computes(op)) {
            new FlashAttention(op, frame, cuda).backward();
        } else {
            new PlainAttention(op, frame, cuda).backward();
        }
    }

    /** Queries, keys and values whose heads are side by side: the steps from row to row are a kernel's argument. */
    @Override
    public boolean takesParts(Attention op, int i) {
        return i <= 2 && !op.split() && !hasNoQueries(op) && op.keys() > 0;
    }

    private static boolean hasNoQueries(Attention op) {
        return op.batch() == 0 || op.queries() == 0;
    }

    private static void clear(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        for (int i = 0; i < (op.mask() == null ? 3 : 4); i++) {
            if (frame.wantsGradient(i)) {
                cuda.zero(frame.gradient(i).address(), frame.gradient(i).byteSize());
            }
        }
    }
}
