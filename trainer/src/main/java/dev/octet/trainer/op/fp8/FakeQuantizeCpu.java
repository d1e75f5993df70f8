package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Parallel;
import org.jspecify.annotations.Nullable;

/** By the casts of {@link QuantizeFp8Cpu}, through the codes of a band. */
public final class FakeQuantizeCpu implements CpuKernel<FakeQuantize> {
    @Override
    public void forward(FakeQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        fake(frame.input(0), op.forward(), frame.output(0), cpu.parallel());
    }

    @Override
    public void backward(FakeQuantize op, Frame<CpuTensor> frame, CpuContext cpu) {
        fake(frame.upstream(0), op.backward(), frame.gradient(0), cpu.parallel());
    }

    private static void fake(CpuTensor x, @Nullable CodedMatrix form, CpuTensor y, Parallel parallel) {
        if (form == null) {
            y.bytes().copyFrom(x.bytes());
            return;
        }
        MatrixCodes matrix = new MatrixCodes(form.blocks(), parallel);
        float[] quantScales = matrix.quantScales(x, form.format(), requireNonNull(form.rule()));
        matrix.round(x, quantScales, form.format(), MatrixCodes.scales(quantScales), y.dtype(), y.bytes());
    }
}
