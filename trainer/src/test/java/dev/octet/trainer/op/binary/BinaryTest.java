package dev.octet.trainer.op.binary;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

class BinaryTest extends TwinTest {
    /** Every way of repeating operands. */
    private static final List<Pair> PAIRS = List.of(
            pair(f32(1), f32(1)),
            pair(f32(3, 7), f32(3, 7)),
            pair(f32(3, 7), f32(7)),
            pair(f32(3, 7), f32(3, 1)),
            pair(f32(), f32(2, 5)),
            pair(f32(2, 5), f32(1)),
            pair(f32(2, 3, 4, 4), f32(2, 1, 4, 4)),
            pair(f32(2, 3, 1, 5), f32(3, 4, 1)),
            pair(f32(4, 1), f32(1, 6)),
            pair(f32(0, 3), f32(3)),
            pair(f32(5003), f32(5003)),
            pair(f32(900, 77), f32(77)),
            pair(f32(3, 70000), f32(3, 1)),
            pair(f32(70001), f32()));

    private static Pair pair(OperandType a, OperandType b) {
        return new Pair(
                a,
                b,
                new OperandType(
                        a.dtype(),
                        Broadcast.shape(List.of(a.shape(), b.shape())).orElseThrow()));
    }

    @Override
    protected double tolerance(Case c) {
        return 5e-6; // sums of 70000 terms
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (Function<Pair, BinaryOp> of : List.<Function<Pair, BinaryOp>>of(Add::new, Sub::new, Mul::new, Div::new)) {
            for (Pair p : PAIRS) {
                BinaryOp op = of.apply(p);
                Case c = Case.normal(op.type() + " " + p, op, p.a(), p.b());
                if (op instanceof Div) {
                    awayFromZero(requireNonNull(c.inputs().get(1)));
                }
                cases.add(c);
            }
        }
        return cases;
    }

    private static void awayFromZero(double[] x) {
        for (int i = 0; i < x.length; i++) {
            x[i] = Math.copySign(1 + Math.abs(x[i]), x[i]);
        }
    }
}
