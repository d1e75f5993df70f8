package dev.octet.trainer.op.accumulate;

import dev.octet.trainer.op.TwinTest;
import java.util.List;

class AccumulateTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("one", new Accumulate(f32(1), f32(1)), f32(1), f32(1)),
                Case.normal("small", new Accumulate(f32(3, 5), f32(3, 5)), f32(3, 5), f32(3, 5)),
                Case.normal("tiles", new Accumulate(f32(5001), f32(5001)), f32(5001), f32(5001)));
    }
}
