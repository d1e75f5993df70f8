package dev.octet.trainer.op.where;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class WhereTest extends TwinTest {
    private static Case of(OperandType condition, OperandType a, OperandType b) {
        OperandType c = condition.as(DType.BOOL);
        OperandType y = new OperandType(
                a.dtype(),
                Broadcast.shape(List.of(c.shape(), a.shape(), b.shape())).orElseThrow());
        return Case.normal(c + " " + a + " " + b, new Where(c, a, b, y), c, a, b);
    }

    /** Every element of the side that is never taken is NaN. */
    private static Case poisoned() {
        Case c = of(f32(5, 7), f32(5, 7), f32(5, 7));
        double[] condition = requireNonNull(c.inputs().getFirst());
        for (int i = 0; i < condition.length; i++) {
            requireNonNull(c.inputs().get(condition[i] != 0 ? 2 : 1))[i] =
                    i % 2 == 0 ? Double.NaN : Double.POSITIVE_INFINITY;
        }
        return new Case("the other side is NaN", c.op(), c.types(), c.inputs());
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
                of(f32(7), f32(7).as(DType.I64), f32(1).as(DType.I64)),
                poisoned());
    }
}
