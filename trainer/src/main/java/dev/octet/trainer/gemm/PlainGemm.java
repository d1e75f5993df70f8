package dev.octet.trainer.gemm;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.FusedMultiplyAdd;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;

/** Three loops over F32 sums: what other products are compared with, and what runs where no native library does. */
final class PlainGemm implements MatrixProducts {
    @Override
    public String name() {
        return "plain Java";
    }

    @Override
    public void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel) {
        parallel.pieces(call.m(), i -> row(call, a, b, c, i));
    }

    @Override
    public void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c) {
        for (int i = 0; i < call.m(); i++) {
            row(call, a, b, c, i);
        }
    }

    private static void row(Call call, MemorySegment a, MemorySegment b, MemorySegment c, int i) {
        CpuTensor x = flat(a, call.operands());
        CpuTensor w = flat(b, call.operands());
        CpuTensor y = flat(c, call.result());
        float[] one = new float[1];
        float[] sum = new float[call.n()];
        if (call.accumulate()) {
            y.read(i * call.ldc(), sum, 0, call.n());
        }
        float[] right = new float[call.n()];
        for (int p = 0; p < call.k(); p++) {
            x.read(call.transposeA() ? p * call.lda() + i : i * call.lda() + p, one, 0, 1);
            if (call.transposeB()) {
                for (int j = 0; j < call.n(); j++) {
                    w.read(j * call.ldb() + p, right, j, 1);
                }
            } else {
                w.read(p * call.ldb(), right, 0, call.n());
            }
            for (int j = 0; j < call.n(); j++) {
                sum[j] = FusedMultiplyAdd.of(one[0], right[j], sum[j]);
            }
        }
        y.write(i * call.ldc(), sum, 0, call.n());
    }

    private static CpuTensor flat(MemorySegment bytes, DType dtype) {
        return new CpuTensor(new OperandType(dtype, Shape.of(bytes.byteSize() * 8 / dtype.bits())), bytes);
    }
}
