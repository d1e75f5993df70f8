package dev.octet.trainer.op.binary;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.junit.jupiter.api.Test;

class BinaryTest extends TwinTest {
    /** Every way of repeating operands. */
    private static final List<Pair> PAIRS = List.of(
            pair(f32(1), f32(1)),
            pair(f32(3, 7), f32(3, 7)),
            pair(f32(3, 7), f32(7)),
            pair(f32(3, 7), f32(3, 1)),
            pair(f32(), f32(2, 5)),
            pair(f32(2, 5), f32(1)),
            pair(f32(2, 3, 4, 4), f32(2, 1, 4, 4)),
            pair(f32(2, 3, 1, 5), f32(3, 4, 1)),
            pair(f32(4, 1), f32(1, 6)),
            pair(f32(0, 3), f32(3)),
            pair(f32(5003), f32(5003)),
            pair(f32(900, 77), f32(77)),
            pair(f32(3, 40001), f32(3, 1)),
            pair(f32(40001), f32()));

    private static Pair pair(OperandType a, OperandType b) {
        return new Pair(
                a,
                b,
                new OperandType(
                        a.dtype(),
                        Broadcast.shape(List.of(a.shape(), b.shape())).orElseThrow()));
    }

    @Override
    protected double tolerance(Case c) {
        return 5e-6; // sums of 40000 terms
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (Pair p : PAIRS) {
            cases.add(of(BinaryFunction.Add.of(p)));
            cases.add(of(BinaryFunction.Sub.of(p)));
            cases.add(of(BinaryFunction.Mul.of(p)));
            cases.add(awayFromZero(BinaryFunction.Div.of(p)));
        }
        for (Pair p : PAIRS.subList(0, 4)) {
            cases.add(of(BinaryFunction.Max.of(p)));
            cases.add(of(BinaryFunction.Min.of(p)));
            cases.add(of(BinaryFunction.PRelu.of(p)));
            cases.add(positive(new Binary(BinaryFunction.Pow, p, OptionalDouble.empty())));
        }
        for (double e : new double[] {2, 3, 1, 0, 0.5, -1, -0.5, 1.7, -3}) {
            Pair p = pair(f32(3, 7), f32());
            Case c = e == Math.rint(e)
                    ? awayFromZero(new Binary(BinaryFunction.Pow, p, OptionalDouble.of(e)))
                    : positive(new Binary(BinaryFunction.Pow, p, OptionalDouble.of(e)));
            requireNonNull(c.inputs().get(1))[0] = e;
            cases.add(c);
        }
        cases.add(of(BinaryFunction.Add.of(pair(f32(50, 70).as(DType.BF16), f32(70).as(DType.BF16)))));
        cases.add(of(
                BinaryFunction.Mul.of(pair(f32(50, 70).as(DType.F16), f32(50, 1).as(DType.F16)))));
        cases.add(of(BinaryFunction.Sub.of(pair(f32(5, 7).as(DType.I64), f32(7).as(DType.I64)))));
        cases.add(awayFromZero(BinaryFunction.Div.of(pair(f32(5, 7).as(DType.I64), f32(7).as(DType.I64)))));
        return cases;
    }

    private static Case of(Binary op) {
        return Case.normal(op.toString(), op, op.pair().a(), op.pair().b());
    }

    private static Case awayFromZero(Binary op) {
        Case c = of(op);
        for (double[] x : c.inputs()) {
            for (int i = 0; i < requireNonNull(x).length; i++) {
                x[i] = Math.copySign(1 + Math.abs(x[i]), x[i]);
            }
        }
        return c;
    }

    private static Case positive(Binary op) {
        Case c = awayFromZero(op);
        for (double[] x : c.inputs()) {
            for (int i = 0; i < requireNonNull(x).length; i++) {
                x[i] = Math.abs(x[i]);
            }
        }
        return c;
    }

    /** Values of one element forward and, for g = 1, its two gradients. */
    private static void assertOne(double a, double b, double y, double da, double db, Binary op) {
        float[] out = new float[1];
        float[] ta = {(float) a};
        float[] tb = {(float) b};
        assertEquals(y, op.value(a, b));
        op.value(ta, tb, out, 1);
        assertEquals((float) y, out[0]);
        assertEquals(da, op.gradient(0, 1, a, b));
        op.gradient(0, new float[] {1}, ta, tb, out, 1);
        assertEquals((float) da, out[0]);
        if (op.isDifferentiable(1)) {
            assertEquals(db, op.gradient(1, 1, a, b));
            op.gradient(1, new float[] {1}, ta, tb, out, 1);
            assertEquals((float) db, out[0]);
        }
    }

    private static final Pair ONE = pair(f32(1), f32(1));

    @Test
    void equal_operands_of_max_and_min_share_the_gradient() {
        assertOne(3, 3, 3, 0.5, 0.5, BinaryFunction.Max.of(ONE));
        assertOne(3, 3, 3, 0.5, 0.5, BinaryFunction.Min.of(ONE));
        assertOne(-1, 2, 2, 0, 1, BinaryFunction.Max.of(ONE));
        assertOne(-1, 2, -1, 1, 0, BinaryFunction.Min.of(ONE));
    }

    @Test
    void the_slope_of_prelu_counts_at_zero() {
        assertOne(0, 0.25, 0, 0.25, 0, BinaryFunction.PRelu.of(ONE));
    }

    @Test
    void a_square_of_a_negative_number_has_its_gradient_and_a_power_of_zero_too() {
        assertOne(-3, 2, 9, -6, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.of(2)));
        assertOne(-3, 3, -27, 27, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.of(3)));
        assertOne(0, 2, 0, 0, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.empty()));
        assertOne(0, 0, 1, 0, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.empty()));
        assertOne(0, 0, 1, 0, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.of(0)));
        assertOne(0, 0.5, 0, Double.POSITIVE_INFINITY, 0, new Binary(BinaryFunction.Pow, ONE, OptionalDouble.of(0.5)));
    }

    @Test
    void integers_are_divided_towards_zero() {
        OperandType i64 = f32(1).as(DType.I64);
        assertEquals(-3, BinaryFunction.Div.of(pair(i64, i64)).value(-7, 2));
        assertEquals(3, BinaryFunction.Div.of(pair(i64, i64)).value(7, 2));
    }
}
