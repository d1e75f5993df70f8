package dev.octet.trainer.op.states;

import dev.octet.trainer.op.TwinTest;
import java.util.List;

class CopyStatesTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("one", new CopyStates(List.of(f32(1))), f32(1)),
                Case.normal(
                        "three", new CopyStates(List.of(f32(1), f32(7, 3), f32(1024))), f32(1), f32(7, 3), f32(1024)));
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }
}
