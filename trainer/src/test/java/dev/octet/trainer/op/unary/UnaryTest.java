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
    private static final List<Function<OperandType, Unary>> WITH_ATTRIBUTES = List.of(
            x -> UnaryFunction.LeakyRelu.of(x, 0.125f),
            x -> UnaryFunction.HardSigmoid.of(x, 0.25f, 0.5f),
            x -> UnaryFunction.Swish.of(x, 1),
            x -> UnaryFunction.Swish.of(x, 1.75f),
            x -> UnaryFunction.Clip.of(x, -0.5001, 0.7501));

    /** A number that the function and its derivative are defined for, and that all float types hold. */
    private static double inDomain(UnaryFunction function, double x) {
        return switch (function) {
            case Log, Reciprocal, Sqrt -> Math.max(0.5, Math.abs(x));
            case Acos, Asin, Atanh -> Math.max(-0.875, Math.min(0.875, x));
            case Acosh -> Math.max(1.5, Math.abs(x));
            default -> x;
        };
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (OperandType x : List.of(f32(), f32(3, 7), f32(4099), f32(301).as(DType.BF16), f32(301).as(DType.F16))) {
            for (Function<OperandType, Unary> of : WITH_ATTRIBUTES) {
                cases.add(of(of.apply(x)));
            }
            for (UnaryFunction function : UnaryFunction.values()) {
                if (function.gradient().exists() && !function.hasAttributes()) {
                    Case c = of(function.of(x));
                    double[] values = requireNonNull(c.inputs().getFirst());
                    for (int i = 0; i < values.length; i++) {
                        values[i] = inDomain(function, values[i]);
                    }
                    cases.add(c);
                }
            }
        }
        for (UnaryFunction function : UnaryFunction.values()) {
            if (!function.gradient().exists()) {
                cases.add(of(function.of(f32(3001))));
            }
        }
        cases.add(of(UnaryFunction.Not.of(f32(3001).as(DType.BOOL))));
        cases.add(of(UnaryFunction.Neg.of(f32(301).as(DType.I64))));
        cases.add(of(UnaryFunction.Abs.of(f32(301).as(DType.I32))));
        return cases;
    }

    private static Case of(Unary op) {
        return Case.normal(op.toString(), op, op.x());
    }

    private static void assertOne(double x, double y, double dx, Unary op) {
        float[] out = new float[1];
        float[] tile = {(float) x};
        assertEquals(y, op.value(x));
        op.value(tile, out, 1);
        assertEquals((float) y, out[0]);
        double saved = op.function().gradient().saved() == SavedForBackward.OUTPUT ? y : x;
        assertEquals(dx, op.gradient(1, saved));
        op.gradient(new float[] {1}, new float[] {(float) saved}, out, 1);
        assertEquals((float) dx, out[0]);
    }

    @Test
    void kinks_have_the_slopes_of_torch() {
        assertOne(0, 0, 0, UnaryFunction.Relu.of(f32()));
        assertOne(0, 0, 0, UnaryFunction.Abs.of(f32()));
        assertOne(0, 0, 0.25, UnaryFunction.LeakyRelu.of(f32(), 0.25f));
        assertOne(-3, -0.0, 0, UnaryFunction.HardSwish.of(f32()));
        assertOne(3, 3, 1, UnaryFunction.HardSwish.of(f32()));
        assertOne(2, 2, 1, UnaryFunction.Clip.of(f32(), -2, 2));
        assertOne(-2, -2, 1, UnaryFunction.Clip.of(f32(), -2, 2));
        assertOne(2.5, 2, 0, UnaryFunction.Clip.of(f32(), -2, 2));
        assertOne(2, 1, 0, UnaryFunction.HardSigmoid.of(f32(), 0.25f, 0.5f));
        assertOne(0, 0, Double.POSITIVE_INFINITY, UnaryFunction.Sqrt.of(f32()));
    }

    @Test
    void nan_goes_through_functions_that_compare() {
        assertOne(Double.NaN, Double.NaN, 1, UnaryFunction.Relu.of(f32()));
        assertOne(Double.NaN, Double.NaN, 0, UnaryFunction.Clip.of(f32(), -2, 2));
    }
}
