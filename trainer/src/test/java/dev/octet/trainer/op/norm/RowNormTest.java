package dev.octet.trainer.op.norm;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.List;

class RowNormTest extends TwinTest {
    private static RowNorm layer(int axis, int outputs, OperandType x) {
        return RowNorm.of(x, DType.F32, true, axis, 1e-5f, outputs);
    }

    private static RowNorm rms(OperandType x) {
        return RowNorm.of(x, DType.F32, false, x.shape().rank() - 1, 1e-6f, 1);
    }

    /** x in one type, the result in another, weights F32. */
    private static Case narrow(String name, OperandType x, DType result) {
        OperandType w = f32(x.shape().dim(1));
        return Case.normal(name, RowNorm.of(x, result, true, 1, 1e-5f, 1), x, w, w);
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("layer, bias", layer(1, 1, f32(3, 7)), f32(3, 7), f32(7), f32(7)),
                Case.normal("layer, no bias", layer(2, 1, f32(2, 3, 13)), f32(2, 3, 13), f32(13)),
                Case.normal("layer, two axes", layer(1, 1, f32(4, 3, 5)), f32(4, 3, 5), f32(3, 5), f32(3, 5)),
                Case.normal("layer, mean asked for", layer(1, 2, f32(3, 9)), f32(3, 9), f32(9), f32(9)),
                Case.normal("layer, mean and deviation", layer(1, 3, f32(3, 9)), f32(3, 9), f32(9), f32(9)),
                Case.normal("layer, one row", layer(0, 1, f32(11)), f32(11), f32(11), f32(11)),
                Case.normal("layer, many rows", layer(1, 1, f32(5000, 17)), f32(5000, 17), f32(17), f32(17)),
                Case.normal("layer, long rows", layer(1, 1, f32(5, 5003)), f32(5, 5003), f32(5003), f32(5003)),
                narrow("BF16, rows of a warp", f32(37, 768).as(DType.BF16), DType.BF16),
                narrow(
                        "BF16 to F32, rows of a warp forward and of a block backward",
                        f32(5, 1280).as(DType.BF16),
                        DType.F32),
                narrow("F16, rows of a block", f32(3, 4096).as(DType.F16), DType.F16),
                narrow("rows beyond registers", f32(3, 8200), DType.BF16),
                Case.normal("rms", rms(f32(3, 7)), f32(3, 7), f32(7)),
                Case.normal("rms, many rows", rms(f32(3, 700, 31)), f32(3, 700, 31), f32(31)));
    }
}
