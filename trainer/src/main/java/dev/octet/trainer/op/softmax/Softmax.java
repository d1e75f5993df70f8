package dev.octet.trainer.op.softmax;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = exp(x - max x) / sum exp(x - max x)} over the middle of three axes [outer, size, inner].
 *
 * <p>ONNX Softmax: from opset 13 along one axis (inner = the axes behind it); up to opset 12 over all axes from {@code axis} on, taken
 * as one (inner = 1). LogSoftmax, with the same rules, is the logarithm of it.
 *
 * @param logarithm whether y is the logarithm: LogSoftmax
 * @param outer product of the dimensions before
 * @param size how many elements are normalised together
 * @param inner product of the dimensions behind
 */
public record Softmax(OperandType x, boolean logarithm, int outer, int size, int inner) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Softmax> ENTRY = OpEntry.of(
                    Softmax.class, new SoftmaxReference(), new SoftmaxCpu(), new SoftmaxCuda())
            .onnx("LogSoftmax", Softmax::readLogarithm)
            .onnx("Softmax", Softmax::read);

    /** Softmax itself. */
    public Softmax(OperandType x, int outer, int size, int inner) {
        this(x, false, outer, size, inner);
    }

    /** Reads ONNX Softmax of any opset. */
    static Softmax read(OpSource source) {
        return read(source, false);
    }

    /** Reads ONNX LogSoftmax of any opset. */
    static Softmax readLogarithm(OpSource source) {
        return read(source, true);
    }

    private static Softmax read(OpSource source, boolean logarithm) {
        OperandType x = source.input(0);
        Shape shape = x.shape();
        boolean oneAxis = source.opset() >= 13;
        long axis = source.node().intAttribute("axis", oneAxis ? -1 : 1);
        int at = Math.toIntExact(axis < 0 ? axis + shape.rank() : axis);
        if (at < 0 || at > shape.rank() || (oneAxis && at == shape.rank())) {
            throw source.refusal("axis " + axis + " is outside of " + shape, "export the model again");
        }
        int outer = 1;
        int inner = 1;
        int size = 1;
        for (int i = 0; i < shape.rank(); i++) {
            int d = Math.toIntExact(shape.dim(i));
            if (i < at) {
                outer = Math.multiplyExact(outer, d);
            } else if (i == at || !oneAxis) {
                size = Math.multiplyExact(size, d);
            } else {
                inner = Math.multiplyExact(inner, d);
            }
        }
        return new Softmax(x, logarithm, outer, size, inner);
    }

    @Override
    public String type() {
        return logarithm ? "LogSoftmax" : "Softmax";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return true;
    }
}
