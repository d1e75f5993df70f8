package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class DequantizeFp8Test extends TwinTest {
    /** Inputs drawn from a normal distribution are rounded to codes where they are fed. */
    private static Case of(String name, OperandType y) {
        CodedMatrix form = DequantizeFp8.kept(y, 128);
        return Case.normal(
                name,
                new DequantizeFp8(y, form),
                y.as(DType.F8_E4M3FN),
                new OperandType(DType.F32, form.blocks().scaleShape()));
    }

    @Override
    protected List<Case> cases() {
        return List.of(of("one group", f32(1, 5)), of("groups, the last is shorter", f32(3, 7, 200)));
    }
}
