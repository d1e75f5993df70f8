package dev.octet.trainer.op.cumsum;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;

class CumSumTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (boolean exclusive : new boolean[] {false, true}) {
            for (boolean reverse : new boolean[] {false, true}) {
                for (int axis = 0; axis < 3; axis++) {
                    CumSum op = new CumSum(f32(2, 5, 3), axis, exclusive, reverse);
                    cases.add(Case.normal(op.toString(), op, op.x()));
                }
            }
        }
        CumSum one = new CumSum(f32(1), 0, false, false);
        CumSum positions = new CumSum(f32(40, 300).as(DType.I64), 1, false, false);
        cases.add(Case.normal("one", one, one.x()));
        cases.add(Case.normal("positions", positions, positions.x()));
        return cases;
    }
}
