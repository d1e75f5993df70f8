package dev.octet.trainer.op.expand;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class ExpandTest extends TwinTest {
    private static Case expand(OperandType x, long... dims) {
        Shape shape = Shape.of(dims);
        return Case.normal(x + " to " + shape, new Expand("Expand", x, x.shape(), shape, shape), x);
    }

    private static Case tile(OperandType x, long... times) {
        return Case.normal(x + " times " + Shape.of(times), Expand.tile(x, times), x);
    }

    @Override
    protected double tolerance(Case c) {
        return 5e-6;
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                expand(f32(), 2, 3),
                expand(f32(3, 1), 3, 4),
                expand(f32(3, 1), 2, 3, 4),
                expand(f32(2, 1, 3, 5), 2, 4, 3, 5),
                expand(f32(2, 3), 2, 3),
                expand(f32(77), 130, 77),
                expand(f32(3, 1).as(DType.I64), 3, 4),
                tile(f32(2, 3), 1, 1),
                tile(f32(2, 3), 2, 3),
                tile(f32(2, 3), 0, 3),
                tile(f32(4, 33, 5).as(DType.BF16), 3, 1, 7));
    }
}
