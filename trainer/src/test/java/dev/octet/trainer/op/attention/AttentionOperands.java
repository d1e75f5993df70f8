package dev.octet.trainer.op.attention;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Operands of attention with numbers, gradients and results without.
 *
 * @param frame what a call takes
 * @param written tensors that hold what is written: y, sums and gradients
 */
record AttentionOperands(GivenFrame<CudaTensor> frame, List<CudaTensor> written) {
    /**
     * Attention whose heads lie side by side.
     *
     * @param mask truth values of each sample's keys; null without a mask
     * @param packed whether queries, keys and values are columns of one tensor, and so their gradients
     */
    record Size(
            String name,
            DType type,
            int batch,
            int heads,
            int keyHeads,
            int queries,
            int keys,
            int head,
            boolean causal,
            @Nullable List<Byte> mask,
            boolean packed) {
        Size masked(byte... truth) {
            List<Byte> all = new ArrayList<>();
            for (byte b : truth) {
                all.add(b);
            }
            return new Size(name, type, batch, heads, keyHeads, queries, keys, head, causal, all, packed);
        }

        /** The first samples of it. */
        Size ofSamples(int count) {
            List<Byte> some = mask == null ? null : mask.subList(0, count * keys);
            return new Size(name, type, count, heads, keyHeads, queries, keys, head, causal, some, packed);
        }

        Attention op() {
            OperandType q = new OperandType(type, Shape.of(batch, queries, (long) heads * head));
            OperandType k = new OperandType(type, Shape.of(batch, keys, (long) keyHeads * head));
            OperandType m = mask == null ? null : new OperandType(DType.BOOL, Shape.of(batch, 1, 1, keys));
            Node node = Node.of(
                    "",
                    "Attention",
                    List.of("q", "k", "v", "mask"),
                    List.of("y"),
                    Attribute.of("q_num_heads", heads),
                    Attribute.of("kv_num_heads", keyHeads),
                    Attribute.of("is_causal", causal ? 1 : 0));
            return Attention.read(
                    new OpSource(node, Arrays.asList(q, k, k, m), Arrays.asList(null, null, null, null), 23));
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /** Operands of an operator of this size. */
    static AttentionOperands of(Size size, CudaOperands operands) {
        Attention op = size.op();
        List<OperandType> types = List.of(op.q(), op.k(), op.v());
        List<CudaTensor> inputs = new ArrayList<>();
        List<CudaTensor> gradients = new ArrayList<>();
        List<CudaTensor> written = new ArrayList<>();
        if (size.packed()) {
            long columns = types.stream().mapToLong(t -> t.shape().dim(-1)).sum();
            OperandType all = new OperandType(size.type(), Shape.of(size.batch(), size.queries(), columns));
            CudaTensor whole = numbers(all, operands, 1);
            CudaTensor gradient = operands.empty(all);
            long start = 0;
            for (OperandType t : types) {
                inputs.add(new CudaTensor(t, whole.address() + 2 * start, columns));
                gradients.add(new CudaTensor(t, gradient.address() + 2 * start, columns));
                start += t.shape().dim(-1);
            }
            written.add(gradient);
        } else {
            types.forEach(t -> inputs.add(numbers(t, operands, inputs.size())));
            types.forEach(t -> gradients.add(operands.empty(t)));
            written.addAll(gradients);
        }
        List<Byte> mask = size.mask();
        if (op.mask() != null && mask != null) {
            byte[] bytes = new byte[mask.size()];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = mask.get(i);
            }
            inputs.add(operands.tensor(op.mask(), bytes));
        }
        List<CudaTensor> outputs = Stream.concat(op.outputs().stream(), op.saved().stream())
                .map(operands::empty)
                .toList();
        written.addAll(0, outputs);
        CudaTensor upstream = numbers(op.outputs().getFirst(), operands, 3);
        return new AttentionOperands(
                new GivenFrame<>(inputs, outputs, upstream, gradients, false), List.copyOf(written));
    }

    /** The same with other gradients wanted. */
    AttentionOperands wanting(boolean q, boolean k, boolean v) {
        return new AttentionOperands(frame.wanting(List.of(q, k, v)), written);
    }

    /** Normal numbers in BF16, or a quarter of them in F16. */
    private static CudaTensor numbers(OperandType type, CudaOperands operands, int seed) {
        byte[] bytes = new byte[Math.toIntExact(type.byteSize())];
        SplittableRandom random = new SplittableRandom(seed);
        int[] some = random.doubles(4096)
                .mapToInt(d -> {
                    float x = (float) random.nextGaussian();
                    return type.dtype() == DType.F16
                            ? Float.floatToFloat16(x / 4) & 0xFFFF
                            : Float.floatToRawIntBits(x) >>> 16;
                })
                .toArray();
        for (int i = 0; i < bytes.length; i += 2) {
            int bits = some[random.nextInt(some.length)];
            bytes[i] = (byte) bits;
            bytes[i + 1] = (byte) (bits >> 8);
        }
        return operands.tensor(type, bytes);
    }
}
