package dev.octet.trainer.op.attention;

import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.attention.FlashAttention.Masking;

/**
 * Attention by the vendor's library, of the kind that {@link FlashAttention} computes, without a mask or with one of truth values that is the same for all
 * queries and heads. The library adds a number to the scores of each key: nothing, or so little that its exponential is 0. Of a query that sees no key it would make
 * the mean of what is hidden: two small kernels see to it that such rows are zero and have no gradient. Statistics are those of {@link FlashAttention}, so one
 * may compute forward and the other backward.
 */
final class LibraryAttention {
    private static final int THREADS = 256;

    private final Attention op;
    private final Frame<CudaTensor> frame;
    private final CudaStream cuda;

    LibraryAttention(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        this.op = op;
        this.frame = frame;
        this.cuda = cuda;
    }

    /** Writes forward; false, and nothing is written, where the library does not compute it. */
    boolean forward() {
        if (!isOfTheKind() || !cuda.computes(described(frame.output(1).address(), asked()))) {
            return false;
        }
        cuda.attention(described(frame.output(1).address(), bias()));
        if (op.mask() != null) {
            cuda.kernel(source(), "attention_hide", ofRows())
                    .pointer("y", frame.output(0))
                    .pointer("log_sums", frame.output(1))
                    .pointer("steps", PlainAttention.steps(op, frame, cuda))
                    .value("batch", op.batch())
                    .value("heads", op.heads())
                    .value("queries", op.queries())
                    .value("value_size", op.valueSize())
                    .launch();
        }
        return true;
    }

    /** Writes the gradients of q, k and v; false, and nothing is written, where the library does not compute them or not all are wanted. */
    boolean backward() {
        boolean all = frame.wantsGradient(0) && frame.wantsGradient(1) && frame.wantsGradient(2);
        if (!all || !isOfTheKind()) {
            return false;
        }
        Gradients gradients = new Gradients(
                queries(frame.upstream(0)),
                queries(frame.gradient(0)),
                keys(frame.gradient(1)),
                keys(frame.gradient(2)));
        if (!cuda.computes(described(frame.output(1).address(), asked()).backward(gradients))) {
            return false;
        }
        long sums = frame.output(1).address();
        if (op.mask() != null) {
            sums = cuda.workspace(frame.output(1).byteSize());
            cuda.kernel(source(), "attention_sums", Grid.over(rows(), THREADS, 1))
                    .pointer("log_sums", frame.output(1))
                    .pointer("sums", sums)
                    .value("rows", rows())
                    .launch();
        }
        cuda.attention(described(sums, bias()).backward(gradients));
        return true;
    }

    private boolean isOfTheKind() {
        return FlashAttention.computes(op) && Masking.of(op) != Masking.BY_QUERY;
    }

    /** In place of the address of a bias while it is only asked for. */
    private long asked() {
        return op.mask() == null ? 0 : CudaAttention.ALIGNMENT;
    }

    /** Address of what is added to the scores of each key; 0 for nothing. */
    private long bias() {
        if (op.mask() == null) {
            return 0;
        }
        long count = (long) op.batch() * op.keys();
        long bias = cuda.workspace(Float.BYTES * count);
        cuda.kernel(source(), "attention_bias", Grid.over(count, THREADS, 1))
                .pointer("mask", frame.input(3))
                .pointer("bias", bias)
                .pointer("steps", PlainAttention.steps(op, frame, cuda))
                .value("batch", op.batch())
                .value("keys", op.keys())
                .launch();
        return bias;
    }

    private CudaSource source() {
        return PlainAttention.source(op);
    }

    private long rows() {
        return (long) op.batch() * op.heads() * op.queries();
    }

    private Grid ofRows() {
        return Grid.over(rows(), THREADS, 1);
    }

    private CudaAttention described(long logSums, long bias) {
        return new CudaAttention(
                op.q().dtype(),
                new Shape(op.batch(), op.heads(), op.keyHeads(), op.queries(), op.keys(), op.size()),
                op.causal(),
                op.scale(),
                queries(frame.input(0)),
                keys(frame.input(1)),
                keys(frame.input(2)),
                queries(frame.output(0)),
                logSums,
                bias,
                null);
    }

    private Rows queries(CudaTensor t) {
        return rows(t, op.queries(), op.heads());
    }

    private Rows keys(CudaTensor t) {
        return rows(t, op.keys(), op.keyHeads());
    }

    private Rows rows(CudaTensor t, int length, int heads) {
        return new Rows(
                t.address(),
                PlainAttention.batch(length, t.pitch(), op.split() ? heads : 1),
                PlainAttention.head(op.split(), length, op.size()),
                t.pitch());
    }
}
