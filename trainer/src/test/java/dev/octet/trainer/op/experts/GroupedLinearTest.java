package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

class GroupedLinearTest extends TwinTest {
    /** Sums of up to 70 terms, in another order than the reference's. */
    @Override
    protected double tolerance(Case c) {
        return 5e-6;
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (boolean transB : new boolean[] {true, false}) {
            for (boolean bias : new boolean[] {true, false}) {
                cases.add(of(DType.F32, 5, 3, transB, bias, 0, 4, 4, 7)); // the second expert has no rows
                cases.add(of(DType.F32, 70, 45, transB, bias, 0, 37, 37, 41, 110));
            }
            cases.add(of(DType.BF16, 40, 33, transB, true, 0, 1, 34));
        }
        cases.add(of(DType.F32, 1, 1, true, false, 0, 1));
        cases.add(of(DType.F32, 3, 2, true, true, 0, 0));
        return cases;
    }

    private static Case of(DType type, int in, int out, boolean transB, boolean bias, int... offsets) {
        int experts = offsets.length - 1;
        OperandType x = new OperandType(type, Shape.of(offsets[experts], in));
        OperandType w = new OperandType(type, transB ? Shape.of(out, in) : Shape.of(in, out));
        OperandType y = new OperandType(type, Shape.of(offsets[experts], out));
        GroupedLinear op = new GroupedLinear(x, w, experts, bias, transB, y);
        List<OperandType> types = new ArrayList<>(List.of(x, new OperandType(DType.I64, Shape.of(experts + 1L))));
        types.addAll(Collections.nCopies(experts, w));
        types.addAll(Collections.nCopies(bias ? experts : 0, new OperandType(type, Shape.of(out))));
        String name = op + " of " + offsets[1];
        Case random = Case.normal(name, op, types.toArray(OperandType[]::new));
        List<double @Nullable []> inputs = new ArrayList<>(random.inputs());
        double[] starts = new double[offsets.length];
        for (int e = 0; e < starts.length; e++) {
            starts[e] = offsets[e];
        }
        inputs.set(1, starts);
        return new Case(name, op, random.types(), inputs);
    }
}
