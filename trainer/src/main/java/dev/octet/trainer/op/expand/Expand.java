package dev.octet.trainer.op.expand;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;

/**
 * x repeated; the gradient is summed over the repetitions. Expand repeats axes of length 1; Tile repeats any axis: {@code [n]} as
 * {@code [times, n]}, where a new axis of length 1 is repeated.
 *
 * @param type the ONNX operator it was read from
 * @param axes x's shape with axes of length 1 where it is repeated
 * @param repeated what {@code axes} is repeated to
 * @param shape of the result: the elements of {@code repeated}
 */
public record Expand(String type, OperandType x, Shape axes, Shape repeated, Shape shape) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Expand> ENTRY = OpEntry.of(
                    Expand.class, new ExpandReference(), new ExpandCpu(), new ExpandCuda())
            .onnx("Expand", Expand::expand)
            .onnx("Tile", Expand::tile);

    /** Reads ONNX Expand: x and the wanted shape are broadcast both ways. */
    static Expand expand(OpSource source) {
        OperandType x = source.input(0);
        Shape wanted = Shape.of(source.longs(1));
        Shape shape = Broadcast.shape(List.of(x.shape(), wanted))
                .orElseThrow(() -> source.refusal(
                        x.shape() + " does not expand to " + wanted, "the model is damaged; export it again"));
        return new Expand("Expand", x, x.shape(), shape, shape);
    }

    /** Reads ONNX Tile. */
    static Expand tile(OpSource source) {
        OperandType x = source.input(0);
        long[] times = source.longs(1);
        if (times.length != x.shape().rank() || Arrays.stream(times).anyMatch(t -> t < 0)) {
            throw source.refusal(
                    Arrays.toString(times) + " does not repeat " + x.shape(), "the model is damaged; export it again");
        }
        return tile(x, times);
    }

    static Expand tile(OperandType x, long... times) {
        long[] axes = new long[2 * times.length];
        long[] repeated = new long[2 * times.length];
        long[] shape = new long[times.length];
        for (int d = 0; d < times.length; d++) {
            axes[2 * d] = 1;
            repeated[2 * d] = times[d];
            axes[2 * d + 1] = x.shape().dim(d);
            repeated[2 * d + 1] = x.shape().dim(d);
            shape[d] = times[d] * x.shape().dim(d);
        }
        return new Expand("Tile", x, Shape.of(axes), Shape.of(repeated), Shape.of(shape));
    }

    Broadcast broadcast() {
        return Broadcast.of(repeated, axes);
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
