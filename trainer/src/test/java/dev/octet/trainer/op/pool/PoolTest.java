package dev.octet.trainer.op.pool;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PoolTest extends TwinTest {
    private static Windows w(int in, int kernel, int stride, int begin, int end, int dilation, boolean ceil) {
        return Windows.of(in, kernel, stride, begin, end, dilation, ceil);
    }

    private static Case of(String name, boolean max, OperandType x, boolean countsPadding, Windows... windows) {
        return Case.normal(name, Pool.of(name, max, x, List.of(windows), countsPadding), x);
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (boolean max : new boolean[] {true, false}) {
            String kind = max ? "max" : "mean";
            cases.add(of(kind, max, f32(2, 3, 6, 4), false, w(6, 2, 2, 0, 0, 1, false), w(4, 2, 2, 0, 0, 1, false)));
            cases.add(of(
                    kind + " overlapping, padded",
                    max,
                    f32(1, 2, 5, 7),
                    false,
                    w(5, 3, 2, 1, 1, 1, false),
                    w(7, 3, 1, 1, 0, 1, false)));
            cases.add(of(
                    kind + " padding counts, ceil",
                    max,
                    f32(1, 2, 6, 5),
                    true,
                    w(6, 3, 2, 1, 1, 1, true),
                    w(5, 2, 2, 0, 0, 1, true)));
            cases.add(of(kind + " dilated, one axis", max, f32(2, 2, 11), false, w(11, 3, 2, 1, 1, 2, false)));
            cases.add(of(
                    kind + " three axes",
                    max,
                    f32(1, 2, 3, 4, 3),
                    false,
                    w(3, 2, 1, 0, 0, 1, false),
                    w(4, 2, 2, 0, 0, 1, false),
                    w(3, 3, 1, 1, 1, 1, false)));
            cases.add(of(kind + " same", max, f32(1, 2, 7), true, Windows.same(7, 4, 2, 1, true)));
            cases.add(of(kind + " whole", max, f32(2, 3, 5, 4), false, Windows.whole(5), Windows.whole(4)));
            cases.add(of(
                    kind + " many",
                    max,
                    f32(9, 5, 28, 28),
                    false,
                    w(28, 2, 2, 0, 0, 1, false),
                    w(28, 2, 2, 0, 0, 1, false)));
        }
        return cases;
    }

    /** Sizes that torch.nn.functional.max_pool1d returns. */
    @Test
    void there_are_as_many_windows_as_torch_makes() {
        assertEquals(3, w(6, 2, 2, 0, 0, 1, false).out());
        assertEquals(3, w(7, 2, 2, 0, 0, 1, false).out());
        assertEquals(4, w(7, 2, 2, 0, 0, 1, true).out());
        // a fourth window would begin in the padding behind
        assertEquals(3, w(5, 2, 2, 1, 1, 1, true).out());
    }
}
