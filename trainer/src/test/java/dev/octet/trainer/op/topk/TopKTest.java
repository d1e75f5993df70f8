package dev.octet.trainer.op.topk;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class TopKTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (boolean largest : new boolean[] {true, false}) {
            for (int axis = 0; axis < 3; axis++) {
                cases.add(of(new TopK(f32(4, 5, 3), axis, 3, largest)));
            }
            cases.add(of(new TopK(f32(70, 8), 1, 2, largest)));
            cases.add(of(new TopK(f32(3, 301), 1, 301, largest)));
            cases.add(of(new TopK(f32(301).as(DType.BF16), 0, 40, largest)));
            cases.add(of(new TopK(f32(9, 40).as(DType.I64), 1, 7, largest))); // with many equal ones
        }
        cases.add(of(new TopK(f32(1), 0, 1, true)));
        cases.add(of(new TopK(f32(4, 5), 1, 0, true)));
        cases.add(of(new TopK(f32(0, 5), 1, 2, true)));
        return cases;
    }

    /** Floats are all different, in eighths: a step of finite differences changes no order. */
    private static Case of(TopK op) {
        Case c = Case.normal(op.toString(), op, op.x());
        double[] x = requireNonNull(c.inputs().getFirst());
        if (op.x().dtype().isFloat()) {
            for (int i = 0; i < x.length; i++) {
                x[i] = ((i * 389 + 7) % x.length - x.length / 2) / 8.0;
            }
        }
        return c;
    }

    @Test
    void nan_is_larger_than_any_number_and_equal_elements_keep_their_order() {
        TopK op = new TopK(f32(3), 0, 1, true);
        assertTrue(op.isBetter(Double.NaN, Double.POSITIVE_INFINITY));
        assertFalse(op.isBetter(Double.POSITIVE_INFINITY, Double.NaN));
        assertFalse(op.isBetter(1, 1));
        assertFalse(op.isBetter(Double.NaN, Double.NaN));
    }
}
