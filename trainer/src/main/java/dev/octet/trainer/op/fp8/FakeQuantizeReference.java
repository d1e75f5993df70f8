package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import org.jspecify.annotations.Nullable;

/** To codes and back, block by block: y[i] = code(x[i] · quantScale) · scale. */
public final class FakeQuantizeReference implements ReferenceKernel<FakeQuantize> {
    @Override
    public void forward(FakeQuantize op, Frame<double[]> frame) {
        fake(frame.input(0), op.forward(), op.x().dtype(), frame.output(0));
    }

    @Override
    public void backward(FakeQuantize op, Frame<double[]> frame) {
        fake(frame.upstream(0), op.backward(), op.x().dtype(), frame.gradient(0));
    }

    private static void fake(double[] x, @Nullable CodedMatrix form, DType type, double[] y) {
        if (form == null) {
            System.arraycopy(x, 0, y, 0, y.length);
            return;
        }
        float[] quantScales = Doubles.quantScales(x, form, requireNonNull(form.rule()), type);
        double[] wide =
                Doubles.decode(Doubles.encode(x, form, quantScales), form.blocks(), Doubles.scales(quantScales));
        for (int i = 0; i < y.length; i++) {
            y[i] = Doubles.round(wide[i], type);
        }
    }
}
