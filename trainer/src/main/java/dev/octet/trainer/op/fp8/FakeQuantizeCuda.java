package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import org.jspecify.annotations.Nullable;

/** By the kernels of {@link QuantizeFp8Cuda}, through codes in memory of the step. */
public final class FakeQuantizeCuda implements CudaKernel<FakeQuantize> {
    @Override
    public void forward(FakeQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        fake(frame.input(0), op.forward(), frame.output(0), cuda);
    }

    @Override
    public void backward(FakeQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        fake(frame.upstream(0), op.backward(), frame.gradient(0), cuda);
    }

    private static void fake(CudaTensor x, @Nullable CodedMatrix form, CudaTensor y, CudaStream cuda) {
        if (x.count() == 0) {
            return;
        }
        if (form == null) {
            cuda.copy(x.address(), y.address(), x.type().byteSize());
            return;
        }
        CudaCodes matrix = new CudaCodes(x, form, cuda);
        long scales = cuda.workspace(form.blocks().scaleCount() * Float.BYTES);
        long codes = cuda.workspace(x.count());
        long quantScales = matrix.quantScales(requireNonNull(form.rule()), scales, 0);
        matrix.encode(codes, 0, quantScales);
        CudaCodes.decode(codes, form, scales, y.dtype(), y.address(), cuda);
    }
}
