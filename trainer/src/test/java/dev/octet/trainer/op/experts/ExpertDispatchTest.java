package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

class ExpertDispatchTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                of(f32(2, 5, 3), 2, 4),
                of(f32(1, 7), 1, 1),
                of(f32(70, 33), 3, 40), // more experts than warps of a block
                of(f32(3, 41, 300), 2, 5), // a row longer than a piece
                of(f32(9, 8).as(DType.BF16), 4, 6),
                of(f32(0, 8), 2, 3));
    }

    /** Choices that leave the second expert without rows, where there are several. */
    private static Case of(OperandType x, int k, int experts) {
        long[] dims = x.shape().toArray();
        dims[dims.length - 1] = k;
        OperandType chosen = new OperandType(DType.I64, Shape.of(dims));
        ExpertDispatch op = new ExpertDispatch("moe", x, chosen, experts);
        Case random = Case.normal(op.toString(), op, x, chosen);
        List<double @Nullable []> inputs = new ArrayList<>(random.inputs());
        double[] slots = new double[(int) chosen.count()];
        for (int i = 0; i < slots.length; i++) {
            int e = (i * 7 + i / 3) % experts;
            slots[i] = e == 1 ? 0 : e;
        }
        inputs.set(1, slots);
        return new Case(op.toString(), op, random.types(), inputs);
    }
}
