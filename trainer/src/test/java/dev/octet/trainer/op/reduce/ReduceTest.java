package dev.octet.trainer.op.reduce;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReduceTest extends TwinTest {
    private static Case of(Reduce.Kind kind, OperandType x, boolean keepsAxes, int... axes) {
        Reduce op = Reduce.of(kind, x, keepsAxes, axes);
        Case c = Case.normal(op.toString(), op, x);
        double[] values = requireNonNull(c.inputs().getFirst());
        for (int i = 0; i < values.length; i++) {
            // logarithms of positive sums; no ties
            values[i] = kind == Reduce.Kind.ReduceLogSum ? 1 + Math.abs(values[i]) : values[i];
        }
        return c;
    }

    @Override
    protected double tolerance(Case c) {
        // sums of thousands of terms; a logarithm rounded to BF16, about 6 ± 0.016, is an exponent again backward
        return requireNonNull(c.types().getFirst()).dtype() == DType.BF16 ? 0.03 : 5e-6;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (Reduce.Kind kind : Reduce.Kind.values()) {
            cases.add(of(kind, f32(1), false, 0));
            cases.add(of(kind, f32(3, 7), true, 1));
            cases.add(of(kind, f32(3, 7), false, 0));
            cases.add(of(kind, f32(2, 3, 4, 5), false, 1, 3));
            cases.add(of(kind, f32(2, 3, 4), true));
            cases.add(of(kind, f32(), false));
            cases.add(of(kind, f32(11, 3001), true, 1));
            cases.add(of(kind, f32(301, 111), false, 0));
            cases.add(of(kind, f32(9001), false, 0));
            cases.add(of(kind, f32(11, 301).as(DType.BF16), true, 1));
        }
        cases.add(of(Reduce.Kind.ReduceSum, f32(4, 5).as(DType.I64), false, 1));
        cases.add(of(Reduce.Kind.ReduceMax, f32(4, 5).as(DType.I64), false, 0));
        return cases;
    }

    @Test
    void equal_extremes_share_the_gradient_evenly() {
        Reduce op = Reduce.of(Reduce.Kind.ReduceMax, f32(5), false, 0);
        assertArrayEquals(
                new double[] {0, 2, 2, 0, 2},
                gradients(op, List.of(f32(5)), List.of(new double[] {1, 3, 3, 2, 3}), new double[] {6})
                        .getFirst());
    }

    @Test
    void the_length_of_nothing_has_no_gradient() {
        Reduce op = Reduce.of(Reduce.Kind.ReduceL2, f32(2), false, 0);
        assertArrayEquals(
                new double[2],
                gradients(op, List.of(f32(2)), List.of(new double[2]), new double[] {1})
                        .getFirst());
    }

    @Test
    void exponentials_of_large_numbers_do_not_overflow() {
        Reduce op = Reduce.of(Reduce.Kind.ReduceLogSumExp, f32(2), false, 0);
        assertArrayEquals(
                new double[] {0.5, 0.5},
                gradients(op, List.of(f32(2)), List.of(new double[] {1000, 1000}), new double[] {1})
                        .getFirst(),
                1e-4); // exp of a difference that was rounded at 1000
    }
}
