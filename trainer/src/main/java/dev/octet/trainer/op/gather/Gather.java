package dev.octet.trainer.op.gather;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.LongStream;

/**
 * {@code y[o, j, i] = x[o, indices[j], i]}: x is [outer, size, inner] around {@code axis}; the result has the indices' shape in place of
 * the axis. Negative indices count from the end. With axis 0 it looks up embeddings.
 *
 * <p>The gradient of x sums over equal indices, in the order of the indices. No gradient flows to the indices.
 *
 * @param node id of the node: indices are data, and messages about them name it
 * @param padding a place on the axis that gets no gradient, whoever looks it up: torch's {@code padding_idx}; -1 for none
 */
public record Gather(String node, OperandType x, OperandType indices, int axis, int padding) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Gather> ENTRY = OpEntry.of(
                    Gather.class, new GatherReference(), new GatherCpu(), new GatherCuda())
            .onnx("Gather", Gather::read);

    /** Without a place that gets no gradient. */
    public Gather(String node, OperandType x, OperandType indices, int axis) {
        this(node, x, indices, axis, -1);
    }

    /** Reads ONNX Gather. */
    static Gather read(OpSource source) {
        OperandType x = source.input(0);
        int axis = source.axis(source.node().intAttribute("axis", 0), x.shape().rank());
        return new Gather(
                source.node().id(),
                x,
                source.input(1),
                axis,
                padding(source, x.shape().dim(axis)));
    }

    private static int padding(OpSource source, long size) {
        String text = source.node().metadata().getOrDefault(Node.PADDING_INDEX, "");
        if (text.isEmpty()) {
            return -1;
        }
        if (!text.matches("\\d{1,9}") || Long.parseLong(text) >= size) {
            throw source.refusal(
                    Node.PADDING_INDEX + " is '" + text + "', not a place below " + size,
                    "correct the node's metadata");
        }
        return Integer.parseInt(text);
    }

    long outer() {
        return LongStream.of(x.shape().toArray()).limit(axis).reduce(1, (a, b) -> a * b);
    }

    /** Places on the axis. */
    public long size() {
        return x.shape().dim(axis);
    }

    long inner() {
        return LongStream.of(x.shape().toArray()).skip(axis + 1L).reduce(1, (a, b) -> a * b);
    }

    @Override
    public String type() {
        return "Gather";
    }

    @Override
    public List<OperandType> outputs() {
        LongStream before = LongStream.of(x.shape().toArray()).limit(axis);
        LongStream picked = LongStream.of(indices.shape().toArray());
        LongStream behind = LongStream.of(x.shape().toArray()).skip(axis + 1L);
        Shape shape = Shape.of(
                LongStream.concat(LongStream.concat(before, picked), behind).toArray());
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 1;
    }

    @Override
    public boolean canAccumulate(int i) {
        return i == 0;
    }
}
