package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;

class LinearTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (boolean transB : new boolean[] {false, true}) {
            for (boolean bias : new boolean[] {false, true}) {
                String name = (transB ? "[out, in]" : "[in, out]") + (bias ? " with bias" : "");
                all.add(linear("one " + name, f32(1, 1), 1, 1, 1, transB, bias));
                all.add(linear("vector " + name, f32(3), 1, 3, 5, transB, bias));
                all.add(linear("small " + name, f32(2, 3, 5), 6, 5, 7, transB, bias));
                all.add(linear("odd " + name, f32(13, 67), 13, 67, 301, transB, bias));
                all.add(linear("long " + name, f32(4, 67, 48), 268, 48, 33, transB, bias));
            }
        }
        return all;
    }

    private static Case linear(String name, OperandType x, int rows, int in, int out, boolean transB, boolean bias) {
        long[] dims = x.shape().toArray();
        dims[dims.length - 1] = out;
        OperandType w = transB ? f32(out, in) : f32(in, out);
        Linear op = new Linear(x, w, bias, transB, f32(dims), rows, in, out);
        return bias ? Case.normal(name, op, x, w, f32(out)) : Case.normal(name, op, x, w);
    }
}
