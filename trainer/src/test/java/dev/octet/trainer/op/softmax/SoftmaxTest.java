package dev.octet.trainer.op.softmax;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class SoftmaxTest extends TwinTest {
    private static Case narrow(DType type, int size) {
        OperandType x = f32(3, size).as(type);
        return Case.normal(type + " rows of " + size, new Softmax(x, 3, size, 1), x);
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("last axis", new Softmax(f32(3, 7), 3, 7, 1), f32(3, 7)),
                Case.normal("middle axis", new Softmax(f32(2, 5, 3), 2, 5, 3), f32(2, 5, 3)),
                Case.normal("one element", new Softmax(f32(1), 1, 1, 1), f32(1)),
                Case.normal("packs", new Softmax(f32(3, 640), 3, 640, 1), f32(3, 640)),
                Case.normal("packs of a block", new Softmax(f32(2, 4096), 2, 4096, 1), f32(2, 4096)),
                Case.normal("rows beyond registers", new Softmax(f32(2, 9001), 2, 9001, 1), f32(2, 9001)),
                Case.normal(
                        "logarithm, rows beyond registers", new Softmax(f32(2, 9001), true, 2, 9001, 1), f32(2, 9001)),
                narrow(DType.BF16, 512),
                narrow(DType.F16, 3000),
                Case.normal("logarithm", new Softmax(f32(3, 7), true, 3, 7, 1), f32(3, 7)),
                Case.normal("logarithm, middle axis", new Softmax(f32(2, 5, 3), true, 2, 5, 3), f32(2, 5, 3)),
                Case.normal("logarithm, long rows", new Softmax(f32(4, 5001), true, 4, 5001, 1), f32(4, 5001)),
                Case.normal("long rows", new Softmax(f32(4, 5001), 4, 5001, 1), f32(4, 5001)));
    }
}
