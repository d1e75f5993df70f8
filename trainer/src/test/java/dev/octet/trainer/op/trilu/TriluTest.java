package dev.octet.trainer.op.trilu;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;

class TriluTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (boolean upper : new boolean[] {false, true}) {
            for (long diagonal : new long[] {-100, -3, -1, 0, 1, 2, 100}) {
                Trilu op = new Trilu(f32(2, 4, 3), upper, diagonal);
                cases.add(Case.normal(op.toString(), op, op.x()));
            }
            Trilu mask = new Trilu(f32(70, 70).as(DType.BOOL), upper, 0);
            cases.add(Case.normal(mask.toString(), mask, mask.x()));
        }
        return cases;
    }
}
