package dev.octet.trainer.op.topk;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * The k largest or smallest elements along an axis and their indices (I64), the best first; of equal elements the one with the lower index. NaN
 * counts as larger than any number, as in torch. The gradient of an element that was chosen is that of its place in the values; of others 0.
 *
 * <p>A line is what lies along the axis: {@code size} elements of x, {@code inner} apart.
 */
public record TopK(OperandType x, int axis, int k, boolean largest) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<TopK> ENTRY = OpEntry.of(TopK.class, new TopKReference(), new TopKCpu(), new TopKCuda())
            .onnx("TopK", TopK::read);

    /** Reads ONNX TopK from opset 10 on; results are sorted even where it need not sort. */
    static TopK read(OpSource source) {
        OperandType x = source.input(0);
        int axis = source.axis(source.node().intAttribute("axis", -1), x.shape().rank());
        long[] k = source.longs(1);
        if (k.length != 1 || k[0] < 0 || k[0] > x.shape().dim(axis)) {
            throw source.refusal(
                    "its k does not fit an axis of " + x.shape().dim(axis) + " elements",
                    "the model is damaged; export it again");
        }
        return new TopK(x, axis, Math.toIntExact(k[0]), source.node().intAttribute("largest", 1) != 0);
    }

    /** Elements of a line. */
    int size() {
        return Math.toIntExact(x.shape().dim(axis));
    }

    /** From one element of a line to the next. */
    long inner() {
        long inner = 1;
        for (int i = axis + 1; i < x.shape().rank(); i++) {
            inner *= x.shape().dim(i);
        }
        return inner;
    }

    /** Number of lines; 0 when there is nothing to choose. */
    long lines() {
        return k == 0 || x.count() == 0 ? 0 : x.count() / size();
    }

    /** First element of a line of x (or, with {@code length} k, of the results). */
    long start(long line, long length) {
        return line / inner() * length * inner() + line % inner();
    }

    /** Whether a number is better than another that has a lower index. */
    boolean isBetter(double value, double than) {
        return largest ? isGreater(value, than) : isGreater(than, value);
    }

    private static boolean isGreater(double a, double b) {
        return a > b || (Double.isNaN(a) && !Double.isNaN(b));
    }

    @Override
    public String type() {
        return "TopK";
    }

    @Override
    public List<OperandType> outputs() {
        long[] dims = x.shape().toArray();
        dims[axis] = k;
        Shape shape = Shape.of(dims);
        return List.of(new OperandType(x.dtype(), shape), new OperandType(DType.I64, shape));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 1;
    }
}
