package dev.octet.trainer.op.softmax;

import dev.octet.trainer.op.TwinTest;
import java.util.List;

class SoftmaxTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("last axis", new Softmax(f32(3, 7), 3, 7, 1), f32(3, 7)),
                Case.normal("middle axis", new Softmax(f32(2, 5, 3), 2, 5, 3), f32(2, 5, 3)),
                Case.normal("one element", new Softmax(f32(1), 1, 1, 1), f32(1)),
                Case.normal("logarithm", new Softmax(f32(3, 7), true, 3, 7, 1), f32(3, 7)),
                Case.normal("logarithm, middle axis", new Softmax(f32(2, 5, 3), true, 2, 5, 3), f32(2, 5, 3)),
                Case.normal("logarithm, long rows", new Softmax(f32(4, 5001), true, 4, 5001, 1), f32(4, 5001)),
                Case.normal("long rows", new Softmax(f32(4, 5001), 4, 5001, 1), f32(4, 5001)));
    }
}
