package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.LongStream;

/**
 * A constant around x; a negative width cuts off. The gradient is what lies within.
 *
 * @param before how many positions before x, by axis
 * @param shape of the result
 */
public record Pad(OperandType x, List<Long> before, Shape shape, double fill) implements StridedCopyOp {
    /** Its row in the table of operators. */
    public static final OpEntry<Pad> ENTRY = StridedCopyOp.entry(Pad.class).onnx("Pad", Pad::read);

    public Pad {
        before = List.copyOf(before);
    }

    /** Reads ONNX Pad of mode {@code constant}: widths are an input from opset 11 on, an attribute before. */
    static Pad read(OpSource source) {
        OperandType x = source.input(0);
        int rank = x.shape().rank();
        String mode = source.node().textAttribute("mode", "constant");
        if (!mode.equals("constant")) {
            throw source.refusal("its mode is '" + mode + "'", "Octet trains Pad with mode 'constant' only");
        }
        long[] pads = source.has(1)
                ? source.longs(1)
                : source.node().intsAttribute("pads").orElse(List.of()).stream()
                        .mapToLong(p -> p)
                        .toArray();
        long[] axes =
                source.has(3) ? source.longs(3) : LongStream.range(0, rank).toArray();
        if (pads.length != 2 * axes.length) {
            throw source.refusal(
                    pads.length + " widths for " + axes.length + " axes", "the model is damaged; export it again");
        }
        double fill = source.has(2)
                ? source.number(2)
                        .orElseThrow(() -> source.refusal(
                                "its value is computed while the model runs", "export it with a constant value"))
                : source.node().floatAttribute("value", 0);
        long[] before = new long[rank];
        long[] dims = x.shape().toArray();
        for (int k = 0; k < axes.length; k++) {
            int axis = source.axis(axes[k], rank);
            before[axis] = pads[k];
            dims[axis] += pads[k] + pads[axes.length + k];
            if (dims[axis] < 0) {
                throw source.refusal("more is cut off than there is", "the model is damaged; export it again");
            }
        }
        return new Pad(x, LongStream.of(before).boxed().toList(), Shape.of(dims), fill);
    }

    @Override
    public String type() {
        return "Pad";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public List<StridedCopy> boxes() {
        long[] inputSteps = StridedCopy.steps(x.shape());
        long[] outputSteps = StridedCopy.steps(shape);
        long[] dims = new long[inputSteps.length];
        long inputStart = 0;
        long outputStart = 0;
        for (int d = 0; d < dims.length; d++) {
            long from = Math.max(0, -before.get(d));
            long to = Math.max(0, before.get(d));
            dims[d] = Math.max(0, Math.min(x.shape().dim(d) - from, shape.dim(d) - to));
            inputStart += from * inputSteps[d];
            outputStart += to * outputSteps[d];
        }
        return List.of(StridedCopy.of(0, 0, dims, inputStart, inputSteps, outputStart, outputSteps));
    }
}
