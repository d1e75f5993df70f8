package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * Attention by the vendor's library: {@code y = softmax(scale·q·kᵀ + bias)·v} for each head, or its gradients. Heads of q share the heads of k and v in groups
 * of neighbours. Sums are F32; the same work gives the same bits every time.
 *
 * @param type of q, k, v, y and their gradients: BF16 or F16
 * @param causal query i looks at keys 0 .. i only
 * @param logSums address of the logarithms of the sums of exponentials of each row, F32 [batch, heads, queries], natural; written forward, read backward
 * @param bias address of what is added to the scaled scores, F32 [batch, keys]; 0 for none
 * @param gradients what backward reads and writes besides; null forward
 */
public record CudaAttention(
        DType type,
        Shape shape,
        boolean causal,
        float scale,
        Rows q,
        Rows k,
        Rows v,
        Rows y,
        long logSums,
        long bias,
        @Nullable Gradients gradients) {
    /** What addresses, and steps in bytes, are multiples of. */
    public static final int ALIGNMENT = 16;

    /**
     * Lengths.
     *
     * @param heads of q
     * @param keyHeads of k and v
     * @param size of a head
     */
    public record Shape(int batch, int heads, int keyHeads, int queries, int keys, int size) {}

    /**
     * Rows of heads.
     *
     * @param batch elements from one sample to the next
     * @param head elements from one head to the next
     * @param row elements from one row to the next; those of a row are neighbours
     */
    public record Rows(long address, long batch, long head, long row) {
        private Rows at(long other) {
            return new Rows(other, batch, head, row);
        }

        private long bits(int width) {
            return address | batch * width | head * width | row * width;
        }
    }

    /** Gradients of y, and of q, k and v. */
    public record Gradients(Rows dy, Rows dq, Rows dk, Rows dv) {}

    /** These gradients of this attention. */
    public CudaAttention backward(Gradients of) {
        return new CudaAttention(type, shape, causal, scale, q, k, v, y, logSums, bias, of);
    }

    /** All that decides how it is computed: the same without addresses, where one is 1 if it is there. */
    public CudaAttention plan() {
        Gradients g = gradients;
        return new CudaAttention(
                type,
                shape,
                causal,
                scale,
                q.at(1),
                k.at(1),
                v.at(1),
                y.at(1),
                1,
                bias == 0 ? 0 : 1,
                g == null ? null : new Gradients(g.dy.at(1), g.dq.at(1), g.dk.at(1), g.dv.at(1)));
    }

    /** Whether all addresses and steps are multiples of {@link #ALIGNMENT} bytes. */
    public boolean isAligned() {
        int width = type.bits() / 8;
        long bits = q.bits(width) | k.bits(width) | v.bits(width) | y.bits(width) | logSums | bias;
        Gradients g = gradients;
        if (g != null) {
            bits |= g.dy.bits(width) | g.dq.bits(width) | g.dk.bits(width) | g.dv.bits(width);
        }
        return bits % ALIGNMENT == 0;
    }

    /** Whether it is that of gradients. */
    public boolean isBackward() {
        return gradients != null;
    }

    /** Queries of all heads and samples. */
    public long rows() {
        return (long) shape.batch * shape.heads * shape.queries;
    }

    /** Name for logs: {@code attention forward bf16 32x12x1024x1024x64 causal}. */
    public String name() {
        return "attention " + (isBackward() ? "backward" : "forward") + " " + CudaSource.suffix(type) + " "
                + shape.batch
                + "x" + shape.heads + (shape.keyHeads == shape.heads ? "" : ":" + shape.keyHeads) + "x" + shape.queries
                + "x" + shape.keys + "x" + shape.size + (causal ? " causal" : "") + (bias == 0 ? "" : " bias");
    }

    /** Bytes of operands and results. */
    public long bytes() {
        long width = type.bits() / 8;
        long ofQueries = rows() * shape.size * width;
        long ofKeys = (long) shape.batch * shape.keyHeads * shape.keys * shape.size * width;
        int each = isBackward() ? 4 : 2;
        return each * (ofQueries + ofKeys) + Float.BYTES * rows();
    }

    /** Multiplications and additions of its products: two forward, five backward; those that causal rows leave out do not count. */
    public double flops() {
        double all = 2.0 * rows() * shape.keys * shape.size;
        return (isBackward() ? 5 : 2) * all * (causal ? 0.5 : 1);
    }
}
