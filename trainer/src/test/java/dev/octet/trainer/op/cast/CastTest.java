package dev.octet.trainer.op.cast;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class CastTest extends TwinTest {
    /** Whole numbers, so that a cast to integers is the identity; the gradient ends there anyway. */
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        cases.add(Case.normal("to f64", new Cast(f32(7), DType.F64), f32(7)));
        cases.add(Case.normal("tiles", new Cast(f32(5001), DType.F64), f32(5001)));
        for (DType from : List.of(DType.BF16, DType.F16, DType.F64)) {
            for (DType to : List.of(DType.F32, DType.BF16, DType.F16)) {
                cases.add(Case.normal(
                        from + " to " + to,
                        new Cast(f32(1003).as(from), to),
                        f32(1003).as(from)));
            }
        }
        for (DType from : List.of(DType.I32, DType.I8, DType.U8, DType.BOOL)) {
            OperandType x = new OperandType(from, Shape.of(4));
            for (DType to : List.of(DType.I64, DType.BOOL, DType.F32)) {
                cases.add(
                        new Case(from + " to " + to, new Cast(x, to), List.of(x), List.of(new double[] {0, 1, 1, 0})));
            }
        }
        OperandType i64 = new OperandType(DType.I64, Shape.of(4));
        double[] whole = {0, -3, 1, 77};
        for (DType to : List.of(DType.I32, DType.BOOL, DType.F32, DType.BF16, DType.F16)) {
            cases.add(new Case("i64 to " + to, new Cast(i64, to), List.of(i64), List.of(whole)));
        }
        OperandType f32 = f32(4);
        for (DType to : List.of(DType.I64, DType.I32, DType.BOOL)) {
            cases.add(new Case(
                    "f32 to " + to, new Cast(f32, to), List.of(f32), List.of(new double[] {0, -3.75, 0.5, 77.2})));
        }
        return cases;
    }

    @Test
    void the_gradient_stops_at_integers() {
        assertFalse(new Cast(f32(2), DType.I64).isDifferentiable(0));
        assertTrue(new Cast(f32(2), DType.BF16).isDifferentiable(0));
    }

    @Test
    void a_cast_to_the_same_type_is_a_view() {
        assertTrue(new Cast(f32(2), DType.F32).isView());
    }
}
