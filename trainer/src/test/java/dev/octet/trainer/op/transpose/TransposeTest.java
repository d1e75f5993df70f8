package dev.octet.trainer.op.transpose;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class TransposeTest extends TwinTest {
    private static Case of(OperandType x, Integer... order) {
        return Case.normal(x + " by " + List.of(order), new Transpose(x, List.of(order)), x);
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                of(f32()),
                of(f32(1), 0),
                of(f32(3, 5), 1, 0),
                of(f32(3, 5), 0, 1),
                of(f32(0, 5), 1, 0),
                of(f32(2, 3, 4), 2, 1, 0),
                of(f32(2, 3, 4, 5), 0, 2, 1, 3),
                of(f32(2, 3, 4, 5), 0, 2, 3, 1),
                of(f32(2, 3, 4, 5), 3, 0, 2, 1),
                of(f32(2, 1, 4, 5), 3, 1, 0, 2),
                of(f32(2, 77, 3, 130), 0, 2, 3, 1),
                of(f32(301, 299), 1, 0),
                of(f32(2, 301, 3, 64), 0, 2, 1, 3),
                of(f32(2, 301, 64).as(DType.BF16), 0, 2, 1),
                of(f32(33, 34).as(DType.F64), 1, 0),
                of(f32(33, 34).as(DType.BOOL), 1, 0));
    }
}
