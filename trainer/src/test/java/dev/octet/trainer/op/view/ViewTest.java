package dev.octet.trainer.op.view;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class ViewTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("reshape", new View("Reshape", f32(3, 4), Shape.of(2, 6)), f32(3, 4)),
                Case.normal("scalar", new View("Squeeze", f32(1, 1), Shape.SCALAR), f32(1, 1)));
    }
}
