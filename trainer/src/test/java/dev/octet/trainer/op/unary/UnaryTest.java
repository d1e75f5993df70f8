package dev.octet.trainer.op.unary;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class UnaryTest extends TwinTest {
    /** Defined everywhere. */
    private static final List<Function<OperandType, UnaryOp>> ALL = List.of(
            Neg::new,
            Abs::new,
            Exp::new,
            Erf::new,
            Tanh::new,
            Sigmoid::new,
            Relu::new,
            Sin::new,
            Cos::new,
            Softplus::new,
            HardSwish::new,
            x -> new LeakyRelu(x, 0.125f),
            x -> new HardSigmoid(x, 0.25f, 0.5f),
            x -> new Swish(x, 1),
            x -> new Swish(x, 1.75f),
            x -> new Clip(x, -0.5001, 0.7501));

    /** Defined for positive numbers. */
    private static final List<Function<OperandType, UnaryOp>> POSITIVE = List.of(Sqrt::new, Reciprocal::new, Log::new);

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (OperandType x : List.of(f32(), f32(3, 7), f32(4099), f32(301).as(DType.BF16), f32(301).as(DType.F16))) {
            for (Function<OperandType, UnaryOp> of : ALL) {
                cases.add(of(of.apply(x)));
            }
            for (Function<OperandType, UnaryOp> of : POSITIVE) {
                Case c = of(of.apply(x));
                double[] values = requireNonNull(c.inputs().getFirst());
                for (int i = 0; i < values.length; i++) {
                    values[i] = Math.max(0.5, Math.abs(values[i]));
                }
                cases.add(c);
            }
        }
        for (NonDifferentiable.Kind kind : NonDifferentiable.Kind.values()) {
            cases.add(of(new NonDifferentiable(kind, f32(3001))));
        }
        cases.add(of(new NonDifferentiable(NonDifferentiable.Kind.Not, f32(3001).as(DType.BOOL))));
        cases.add(of(new Neg(f32(301).as(DType.I64))));
        cases.add(of(new Abs(f32(301).as(DType.I32))));
        return cases;
    }

    private static Case of(UnaryOp op) {
        return Case.normal(op.toString(), op, op.x());
    }

    private static void assertOne(double x, double y, double dx, UnaryOp op) {
        float[] out = new float[1];
        float[] tile = {(float) x};
        assertEquals(y, op.value(x));
        op.value(tile, out, 1);
        assertEquals((float) y, out[0]);
        double kept = op.kept() == SavedForBackward.OUTPUT ? y : x;
        assertEquals(dx, op.gradient(1, kept));
        op.gradient(new float[] {1}, new float[] {(float) kept}, out, 1);
        assertEquals((float) dx, out[0]);
    }

    @Test
    void kinks_have_the_slopes_of_torch() {
        assertOne(0, 0, 0, new Relu(f32()));
        assertOne(0, 0, 0, new Abs(f32()));
        assertOne(0, 0, 0.25, new LeakyRelu(f32(), 0.25f));
        assertOne(-3, -0.0, 0, new HardSwish(f32()));
        assertOne(3, 3, 1, new HardSwish(f32()));
        assertOne(2, 2, 1, new Clip(f32(), -2, 2));
        assertOne(-2, -2, 1, new Clip(f32(), -2, 2));
        assertOne(2.5, 2, 0, new Clip(f32(), -2, 2));
        assertOne(2, 1, 0, new HardSigmoid(f32(), 0.25f, 0.5f));
        assertOne(0, 0, Double.POSITIVE_INFINITY, new Sqrt(f32()));
    }

    @Test
    void nan_goes_through_functions_that_compare() {
        assertOne(Double.NaN, Double.NaN, 1, new Relu(f32()));
        assertOne(Double.NaN, Double.NaN, 0, new Clip(f32(), -2, 2));
    }
}
