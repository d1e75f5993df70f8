package dev.octet.trainer.op.gather;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
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
 */
public record Gather(String node, OperandType x, OperandType indices, int axis) implements Op {
    /** Reads ONNX Gather. */
    public static Gather read(OpSource source) {
        OperandType x = source.input(0);
        long axis = source.node().intAttribute("axis", 0);
        return new Gather(
                source.node().id(),
                x,
                source.input(1),
                source.axis(axis, x.shape().rank()));
    }

    long outer() {
        return LongStream.of(x.shape().toArray()).limit(axis).reduce(1, (a, b) -> a * b);
    }

    long size() {
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
