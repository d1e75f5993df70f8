package dev.octet.trainer.op.loss;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;

class RowLossTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (RowLoss.Kind kind : RowLoss.Kind.values()) {
            cases.add(of(kind, f32(3, 4, 5), false));
            cases.add(of(kind, f32(3, 4, 5), true));
            cases.add(of(kind, f32(11), false));
            cases.add(of(kind, f32(40, 1001), true));
            cases.add(of(kind, f32(6, 1536).as(DType.BF16), true));
            cases.add(of(kind, f32(21, 40).as(DType.F16), false));
        }
        return cases;
    }

    private static Case of(RowLoss.Kind kind, OperandType x, boolean masked) {
        RowLoss op = RowLoss.of(kind, x, x);
        String name = kind + " " + x + (masked ? " masked" : "");
        Case drawn = Case.normal(name, op, x, x);
        if (!masked) {
            return drawn;
        }
        double[] mask = new double[op.rows()];
        for (int i = 0; i < mask.length; i++) {
            mask[i] = i % 3 == 1 ? 0 : 1;
        }
        return new Case(
                name,
                op,
                List.of(x, x, new OperandType(DType.I64, Shape.of(op.rows()))),
                List.of(
                        requireNonNull(drawn.inputs().get(0)),
                        requireNonNull(drawn.inputs().get(1)),
                        mask));
    }
}
