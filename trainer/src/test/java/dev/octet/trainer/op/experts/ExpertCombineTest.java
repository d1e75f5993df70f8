package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

class ExpertCombineTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                of(3, f32(2, 5, 2), DType.F32),
                of(1, f32(1, 1), DType.F32),
                of(300, f32(41, 3), DType.F32),
                of(40, f32(9, 4), DType.BF16),
                of(40, f32(9, 4).as(DType.BF16), DType.BF16),
                of(8, f32(0, 2), DType.F32));
    }

    private static Case of(int size, OperandType weights, DType type) {
        OperandType rows = new OperandType(type, Shape.of(weights.count(), size));
        OperandType places = new OperandType(DType.I64, Shape.of(weights.count()));
        ExpertCombine op = new ExpertCombine(rows, places, weights);
        Case random = Case.normal(op.toString(), op, rows, places, weights);
        List<double @Nullable []> inputs = new ArrayList<>(random.inputs());
        double[] shuffled = new double[(int) weights.count()];
        for (int i = 0; i < shuffled.length; i++) {
            shuffled[i] = (i * 389L + 5) % shuffled.length; // 389 is prime: each row once
        }
        inputs.set(1, shuffled);
        return new Case(op.toString(), op, random.types(), inputs);
    }
}
