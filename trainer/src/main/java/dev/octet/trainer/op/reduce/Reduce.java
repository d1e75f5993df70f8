package dev.octet.trainer.op.reduce;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;

/**
 * One number for all elements along some axes.
 *
 * @param folded the shape of x with 1 in place of the axes that are reduced
 * @param shape that of the result: {@code folded}, or without those axes
 */
public record Reduce(Kind kind, OperandType x, Shape folded, Shape shape) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Reduce> ENTRY = entry();

    /** Which number; named as the ONNX operators. */
    public enum Kind {
        /** Σ|x|; dx = g·sign x. */
        ReduceL1,
        /** √Σx²; dx = g·x / y, 0 where y is 0, as in torch. */
        ReduceL2,
        /** log Σx; dx = g / Σx. */
        ReduceLogSum,
        /** log Σe^x, without overflow; dx = g·e^(x - y). */
        ReduceLogSumExp,
        /** The largest; equal ones share the gradient evenly, as in torch's amax. */
        ReduceMax,
        /** Σx / n; dx = g / n. */
        ReduceMean,
        /** The smallest, as ReduceMax. */
        ReduceMin,
        /** Σx; dx = g. */
        ReduceSum,
        /** Σx²; dx = 2gx. */
        ReduceSumSquare
    }

    private static OpEntry<Reduce> entry() {
        OpEntry<Reduce> entry = OpEntry.of(Reduce.class, new ReduceReference(), new ReduceCpu(), new ReduceCuda());
        for (Kind kind : Kind.values()) {
            entry = entry.onnx(kind.name(), source -> read(kind, source));
        }
        return entry;
    }

    /** Reads the ONNX operator of this name: axes are an attribute up to opset 17 (ReduceSum: 12), then an input. */
    private static Reduce read(Kind kind, OpSource source) {
        OperandType x = source.input(0);
        int rank = x.shape().rank();
        long[] axes = source.has(1)
                ? source.longs(1)
                : source.node().intsAttribute("axes").orElse(List.of()).stream()
                        .mapToLong(a -> a)
                        .toArray();
        if (axes.length == 0 && source.node().intAttribute("noop_with_empty_axes", 0) == 0) {
            axes = LongStream.range(0, rank).toArray();
        }
        return of(
                kind,
                x,
                source.node().intAttribute("keepdims", 1) != 0,
                Arrays.stream(axes).mapToInt(a -> source.axis(a, rank)).toArray());
    }

    /** The reduction of x along {@code axes}. */
    static Reduce of(Kind kind, OperandType x, boolean keepsAxes, int... axes) {
        long[] folded = x.shape().toArray();
        boolean[] reduced = new boolean[folded.length];
        for (int axis : axes) {
            folded[axis] = 1;
            reduced[axis] = true;
        }
        List<Long> left = new ArrayList<>();
        for (int i = 0; i < folded.length; i++) {
            if (keepsAxes || !reduced[i]) {
                left.add(folded[i]);
            }
        }
        return new Reduce(
                kind,
                x,
                Shape.of(folded),
                Shape.of(left.stream().mapToLong(d -> d).toArray()));
    }

    /** The result repeated to x. */
    Broadcast broadcast() {
        return Broadcast.of(x.shape(), folded);
    }

    /** How many elements become one. */
    long terms() {
        return folded.elementCount() == 0 ? 0 : x.count() / folded.elementCount();
    }

    @Override
    public String type() {
        return kind.name();
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return switch (kind) {
            case ReduceMean, ReduceSum, ReduceLogSum -> false;
            case ReduceL1, ReduceL2, ReduceLogSumExp, ReduceMax, ReduceMin, ReduceSumSquare -> i == 0;
        };
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return switch (kind) {
            case ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceMax, ReduceMin -> true;
            case ReduceL1, ReduceMean, ReduceSum, ReduceSumSquare -> false;
        };
    }
}
