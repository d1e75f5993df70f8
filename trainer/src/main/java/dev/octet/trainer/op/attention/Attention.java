package dev.octet.trainer.op.attention;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * ONNX Attention (opset 23): {@code y = softmax(scale·q·kᵀ + mask)·v} for each head; heads of q share the heads of k and v in groups of
 * neighbours. A row that may look at nothing is zero.
 *
 * <p>Operands have the axes [batch, heads, sequence, size], or [batch, sequence, heads·size]. Forward leaves the logarithm of the sum of
 * exponentials of each row, F32 [batch, heads, queries]; backward computes the probabilities again, so no matrix of queries by
 * keys is ever kept.
 *
 * @param mask added to the scores, or BOOL: where to look; broadcast to [batch, heads, queries, keys]; null when absent
 * @param heads of q
 * @param keyHeads of k and v
 * @param queries length of q's sequence
 * @param keys length of k's and v's sequence
 * @param size of a head of q and k
 * @param valueSize of a head of v
 * @param split whether heads are an axis of their own
 * @param causal query i looks at keys 0 .. i only
 */
public record Attention(
        OperandType q,
        OperandType k,
        OperandType v,
        @Nullable OperandType mask,
        OperandType y,
        int batch,
        int heads,
        int keyHeads,
        int queries,
        int keys,
        int size,
        int valueSize,
        boolean split,
        boolean causal,
        float scale)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Attention> ENTRY = OpEntry.of(
                    Attention.class, new AttentionReference(), new AttentionCpu(), new AttentionCuda())
            .onnx("Attention", Attention::read);

    /** Reads ONNX Attention of opsets 23 and 24. */
    static Attention read(OpSource source) {
        refuseWhatIsForInference(source);
        OperandType q = source.input(0);
        OperandType k = source.input(1);
        OperandType v = source.input(2);
        boolean split = q.shape().rank() == 4;
        if (q.dtype() != k.dtype() || q.dtype() != v.dtype() || !q.dtype().isFloat()) {
            throw source.refusal("q, k and v are " + q + ", " + k + ", " + v, "give them one float type");
        }
        if (k.shape().rank() != q.shape().rank()
                || v.shape().rank() != q.shape().rank()
                || q.shape().rank() < 3) {
            throw source.refusal("q, k and v are " + q + ", " + k + ", " + v, "all must have 3 or 4 axes");
        }
        long heads = split ? q.shape().dim(1) : source.node().intAttribute("q_num_heads", 0);
        long keyHeads = split ? k.shape().dim(1) : source.node().intAttribute("kv_num_heads", 0);
        int at = split ? 2 : 1;
        long queries = q.shape().dim(at);
        long keys = k.shape().dim(at);
        if (heads <= 0 || keyHeads <= 0 || heads % keyHeads != 0 || v.shape().dim(at) != keys) {
            throw source.refusal(
                    heads + " heads of q, " + keyHeads + " of k and v, on " + q + ", " + k + ", " + v,
                    "check q_num_heads, kv_num_heads and the shapes");
        }
        long size = split ? q.shape().dim(3) : q.shape().dim(2) / heads;
        long valueSize = split ? v.shape().dim(3) : v.shape().dim(2) / keyHeads;
        long batch = q.shape().dim(0);
        boolean fits = split
                ? k.shape().dim(3) == size
                : q.shape().dim(2) == heads * size && k.shape().dim(2) == keyHeads * size;
        if (!fits) {
            throw source.refusal("heads of q and k differ: " + q + ", " + k, "check the number of heads");
        }
        OperandType mask = source.has(3) ? source.input(3) : null;
        checkMask(source, mask, new long[] {batch, heads, queries, keys});
        float scale = source.node().floatAttribute("scale", 0);
        Shape y = split ? Shape.of(batch, heads, queries, valueSize) : Shape.of(batch, queries, heads * valueSize);
        return new Attention(
                q,
                k,
                v,
                mask,
                new OperandType(q.dtype(), y),
                Math.toIntExact(batch),
                (int) heads,
                (int) keyHeads,
                Math.toIntExact(queries),
                Math.toIntExact(keys),
                Math.toIntExact(size),
                Math.toIntExact(valueSize),
                split,
                source.node().intAttribute("is_causal", 0) != 0,
                scale == 0 ? (float) (1 / Math.sqrt((double) size)) : scale);
    }

    private static void refuseWhatIsForInference(OpSource source) {
        if (source.node().floatAttribute("softcap", 0) != 0) {
            throw source.refusal("softcap has no gradient here", "export the model with attention in single operators");
        }
        if (source.has(4) || source.has(5) || source.has(6)) {
            throw source.refusal(
                    "it continues a cache of keys and values, which training does not have",
                    "export the model without past keys and values");
        }
        for (int i = 1; i < source.node().outputs().size(); i++) {
            if (!source.node().output(i).isEmpty()) {
                throw source.refusal(
                        "its output '" + source.node().output(i) + "' (a cache, or scores) is used",
                        "export the model without caches and attention scores");
            }
        }
    }

    private static void checkMask(OpSource source, @Nullable OperandType mask, long[] scores) {
        if (mask == null) {
            return;
        }
        boolean fits = mask.shape().rank() <= 4
                && (mask.dtype() == DType.BOOL || mask.dtype().isFloat());
        for (int axis = 1; fits && axis <= mask.shape().rank(); axis++) {
            long d = mask.shape().dim(-axis);
            fits = d == 1 || d == scores[4 - axis];
        }
        if (!fits) {
            throw source.refusal(
                    "its mask " + mask + " does not fit scores " + Shape.of(scores), "check the mask's shape and type");
        }
    }

    /** Queries that share a head of k and v. */
    int group() {
        return heads / keyHeads;
    }

    /** Where head {@code h} of sample {@code b} begins in an operand of {@code count} heads, and how far its rows are apart. */
    private int start(int b, int h, int count, int length, int width) {
        return split ? (b * count + h) * length * width : b * length * count * width + h * width;
    }

    int startQ(int b, int h) {
        return start(b, h, heads, queries, size);
    }

    int startK(int b, int h) {
        return start(b, h, keyHeads, keys, size);
    }

    int startV(int b, int h) {
        return start(b, h, keyHeads, keys, valueSize);
    }

    int startY(int b, int h) {
        return start(b, h, heads, queries, valueSize);
    }

    int strideQ() {
        return split ? size : heads * size;
    }

    int strideK() {
        return split ? size : keyHeads * size;
    }

    int strideV() {
        return split ? valueSize : keyHeads * valueSize;
    }

    int strideY() {
        return split ? valueSize : heads * valueSize;
    }

    /** Where the mask of query {@code i} begins; the mask's step from key to key is {@link #maskStep}. */
    int startMask(int b, int h, int i) {
        if (mask == null) {
            return 0;
        }
        int[] at = {b, h, i};
        int rank = mask.shape().rank();
        int start = 0;
        int step = rank >= 1 ? (int) mask.shape().dim(-1) : 1;
        for (int axis = 2; axis <= Math.min(4, rank); axis++) {
            int d = (int) mask.shape().dim(-axis);
            start += d == 1 ? 0 : at[4 - axis] * step;
            step *= d;
        }
        return start;
    }

    int maskStep() {
        return mask == null || mask.shape().rank() == 0 || mask.shape().dim(-1) == 1 ? 0 : 1;
    }

    @Override
    public String type() {
        return "Attention";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public List<OperandType> saved() {
        return List.of(new OperandType(DType.F32, Shape.of(batch, heads, queries)));
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    /** Of a row, {@code dy·y} is what its scores' gradients have in common, so no pass over the keys has to find it. */
    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 0;
    }
}
