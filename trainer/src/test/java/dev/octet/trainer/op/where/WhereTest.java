package dev.octet.trainer.op.where;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;
import org.junit.jupiter.api.Test;

class WhereTest extends TwinTest {
    private static Case of(OperandType condition, OperandType a, OperandType b) {
        OperandType c = condition.as(DType.BOOL);
        OperandType y = new OperandType(
                a.dtype(),
                Broadcast.shape(List.of(c.shape(), a.shape(), b.shape())).orElseThrow());
        return Case.normal(c + " " + a + " " + b, new Where(c, a, b, y), c, a, b);
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                of(f32(), f32(), f32()),
                of(f32(3, 7), f32(3, 7), f32(3, 7)),
                of(f32(2, 1, 4, 4), f32(2, 3, 4, 4), f32()),
                of(f32(3, 1), f32(1, 5), f32(3, 5)),
                of(f32(70, 1), f32(70, 90), f32(90)),
                of(f32(1, 1, 40, 40), f32(3, 2, 40, 40).as(DType.BF16), f32(1).as(DType.BF16)),
                of(f32(7), f32(7).as(DType.I64), f32(1).as(DType.I64)));
    }

    @Test
    void nan_and_infinity_of_the_side_that_is_not_taken_do_not_leak() {
        Case c = of(f32(4), f32(4), f32(4));
        List<double[]> gradients = gradients(
                c.op(),
                List.of(f32(4).as(DType.BOOL), f32(4), f32(4)),
                List.of(
                        new double[] {1, 0, 1, 0},
                        new double[] {1, Double.NaN, 2, Double.POSITIVE_INFINITY},
                        new double[] {Double.NaN, 3, Double.NEGATIVE_INFINITY, 4}),
                new double[] {5, 6, 7, 8});
        assertArrayEquals(new double[] {5, 0, 7, 0}, gradients.get(1));
        assertArrayEquals(new double[] {0, 6, 0, 8}, gradients.get(2));
    }
}
