package dev.octet.trainer.op.loss;

import dev.octet.trainer.op.TwinTest;
import java.util.List;

class MixedLossTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("a third", new MixedLoss(1 / 3f), f32(), f32()),
                Case.normal("nearly all", new MixedLoss(0.99f), f32(), f32()));
    }
}
