package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;

/**
 * From each axis positions at equal distances, from a first one on; the distances may be negative. The gradient is zero at what was left out.
 *
 * @param starts by axis of x
 * @param steps by axis of x
 * @param shape of the result
 */
public record Slice(OperandType x, List<Long> starts, List<Long> steps, Shape shape) implements StridedCopyOp {
    /** Its row in the table of operators. */
    public static final OpEntry<Slice> ENTRY = StridedCopyOp.entry(Slice.class).onnx("Slice", Slice::read);

    public Slice {
        starts = List.copyOf(starts);
        steps = List.copyOf(steps);
    }

    /** Reads ONNX Slice: starts, ends, axes and steps are inputs from opset 10 on, attributes (without steps) before. */
    static Slice read(OpSource source) {
        OperandType x = source.input(0);
        int rank = x.shape().rank();
        long[] starts = numbers(source, 1, "starts");
        long[] ends = numbers(source, 2, "ends");
        long[] axes = numbers(source, 3, "axes");
        long[] steps = source.has(4) ? source.longs(4) : new long[0];
        if (starts.length != ends.length
                || (axes.length > 0 && axes.length != starts.length)
                || (steps.length > 0 && steps.length != starts.length)
                || starts.length > rank) {
            throw source.refusal(
                    "its starts, ends, axes and steps are not equally many", "the model is damaged; export it again");
        }
        long[] first = new long[rank];
        long[] every = new long[rank];
        Arrays.fill(every, 1);
        long[] dims = x.shape().toArray();
        for (int k = 0; k < starts.length; k++) {
            int axis = axes.length == 0 ? k : source.axis(axes[k], rank);
            long step = steps.length == 0 ? 1 : steps[k];
            if (step == 0) {
                throw source.refusal("a step is 0", "the model is damaged; export it again");
            }
            long dim = dims[axis];
            // ONNX: what counts from the end is moved, then bounded; backwards one can end before the first element
            long low = step > 0 ? 0 : -1;
            long high = step > 0 ? dim : dim - 1;
            long start = clamp(starts[k], dim, Math.min(high, Math.max(low, 0)), high);
            long end = clamp(ends[k], dim, low, high);
            first[axis] = start;
            every[axis] = step;
            dims[axis] = Math.max(0, step > 0 ? Math.ceilDiv(end - start, step) : Math.ceilDiv(start - end, -step));
        }
        return new Slice(x, boxed(first), boxed(every), Shape.of(dims));
    }

    private static long clamp(long position, long dim, long low, long high) {
        long from = position < 0 ? position + dim : position;
        return Math.max(low, Math.min(high, from));
    }

    private static long[] numbers(OpSource source, int input, String attribute) {
        return source.has(input)
                ? source.longs(input)
                : source.node().intsAttribute(attribute).orElse(List.of()).stream()
                        .mapToLong(a -> a)
                        .toArray();
    }

    private static List<Long> boxed(long[] values) {
        return LongStream.of(values).boxed().toList();
    }

    @Override
    public String type() {
        return "Slice";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public List<StridedCopy> boxes() {
        long[] inputSteps = StridedCopy.steps(x.shape());
        long start = 0;
        for (int d = 0; d < inputSteps.length; d++) {
            start += starts.get(d) * inputSteps[d];
            inputSteps[d] *= steps.get(d);
        }
        return List.of(StridedCopy.of(0, 0, shape.toArray(), start, inputSteps, 0, StridedCopy.steps(shape)));
    }
}
