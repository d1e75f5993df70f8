package dev.octet.trainer.op.cumsum;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Running sums along an axis; the gradient is the running sum from the other end.
 *
 * @param exclusive whether an element's own value is left out of its sum
 * @param reverse whether sums run from the end
 */
public record CumSum(OperandType x, int axis, boolean exclusive, boolean reverse) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<CumSum> ENTRY = OpEntry.of(
                    CumSum.class, new CumSumReference(), new CumSumCpu(), new CumSumCuda())
            .onnx("CumSum", CumSum::read);

    /** Reads ONNX CumSum. */
    static CumSum read(OpSource source) {
        OperandType x = source.input(0);
        return new CumSum(
                x,
                source.axis(source.longs(1)[0], x.shape().rank()),
                source.node().intAttribute("exclusive", 0) != 0,
                source.node().intAttribute("reverse", 0) != 0);
    }

    int size() {
        return Math.toIntExact(x.shape().dim(axis));
    }

    int inner() {
        return Math.toIntExact(behind(x.shape(), axis));
    }

    private static long behind(Shape shape, int axis) {
        return LongStream.of(shape.toArray()).skip(axis + 1L).reduce(1, (a, b) -> a * b);
    }

    /** The operator whose forward is this one's backward. */
    CumSum back() {
        return new CumSum(x, axis, exclusive, !reverse);
    }

    @Override
    public String type() {
        return "CumSum";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
