package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import dev.octet.trainer.op.product.Loops;
import dev.octet.trainer.op.product.Loops.Matrix;
import org.jspecify.annotations.Nullable;

/**
 * The products of what the operands stand for: y = x̂·ŵ + b, dx = dŷ·ŵᵀ, dw = x̂ᵀ·dŷ, db = the sum of the rows of dy; a hat is an operand
 * quantised as its product has it, so the two dŷ may differ. Quantisation's own derivative is taken to be 1.
 */
public final class Fp8LinearReference implements ReferenceKernel<Fp8Linear> {
    @Override
    public void forward(Fp8Linear op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = op.hasBias() ? Doubles.round(frame.input(Fp8Linear.BIAS)[i % op.out()], op.biasType()) : 0;
        }
        double[] x = input(op.fprop().left(), op.fprop(), frame, Fp8Linear.X, Fp8Linear.X_CODES);
        double[] w = input(op.fprop().right(), op.fprop(), frame, Fp8Linear.W_NARROW, Fp8Linear.W_CODES);
        Loops.add(Matrix.of(x, op.in()), weight(op, w), Matrix.of(y, op.out()), op.rows(), op.out(), op.in());
    }

    @Override
    public void backward(Fp8Linear op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        if (frame.wantsGradient(Fp8Linear.X)) {
            Matrix up = Matrix.of(gradient(op, op.dgrad(), frame), op.out());
            int codes = op.dgradHasOwnWeight() ? Fp8Linear.W_CODES_DGRAD : Fp8Linear.W_CODES;
            double[] w = input(op.dgrad().right(), op.dgrad(), frame, Fp8Linear.W_NARROW, codes);
            Matrix dx = Matrix.of(frame.gradient(Fp8Linear.X), op.in());
            Loops.add(up, weight(op, w).transposed(), dx, op.rows(), op.in(), op.out());
        }
        if (frame.wantsGradient(Fp8Linear.W)) {
            Matrix up = Matrix.of(gradient(op, op.wgrad(), frame), op.out());
            int codes = op.wgradHasOwnInput() ? Fp8Linear.X_CODES_WGRAD : Fp8Linear.X_CODES;
            double[] x = input(op.wgrad().right(), op.wgrad(), frame, Fp8Linear.X, codes);
            Matrix dw = weight(op, frame.gradient(Fp8Linear.W));
            Loops.add(Matrix.of(x, op.in()).transposed(), up, dw, op.in(), op.out(), op.rows());
        }
        if (op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS)) {
            double[] db = frame.gradient(Fp8Linear.BIAS);
            for (int i = 0; i < dy.length; i++) {
                db[i % op.out()] += dy[i];
            }
        }
        if (op.hasWindow()) {
            double[] window = frame.input(Fp8Linear.DY_HISTORY);
            CodedMatrix form =
                    op.dgrad().left() != null ? op.dgrad().left() : op.wgrad().left();
            float[] all = Doubles.toFloats(window);
            frame.input(Fp8Linear.DY_QUANT_SCALE)[0] = windowed(dy, requireNonNull(form), frame, all);
            for (int i = 0; i < all.length; i++) {
                window[i] = all[i];
            }
        } else if (frame.hasInput(Fp8Linear.DY_HISTORY)) {
            double[] history = frame.input(Fp8Linear.DY_HISTORY);
            Blocks whole = CodedMatrix.whole(1, dy.length);
            history[0] = AmaxHistory.raised((float) history[0], Doubles.amax(dy, whole, false)[0]);
        }
    }

    /** x or w as a product takes it. */
    private static double[] input(
            @Nullable CodedMatrix form, ProductForm product, Frame<double[]> frame, int plain, int codes) {
        return form == null
                ? frame.input(plain)
                : widened(Doubles.decode(frame.input(codes), form.blocks(), frame.input(codes + 1)), product);
    }

    /** dy as a product takes it. */
    private static double[] gradient(Fp8Linear op, ProductForm product, Frame<double[]> frame) {
        CodedMatrix form = product.left();
        double[] dy = frame.upstream(0);
        if (form == null) {
            return dy;
        }
        DType type = op.y().dtype();
        QuantScaleRule rule = form.rule();
        if (form.isWindowed()) {
            float[] window = Doubles.toFloats(frame.input(Fp8Linear.DY_HISTORY));
            float[] quantScale = {windowed(dy, form, frame, window)};
            return widened(
                    Doubles.decode(Doubles.encode(dy, form, quantScale), form.blocks(), Doubles.scales(quantScale)),
                    product);
        }
        float[] quantScales = rule == null
                ? new float[] {(float) frame.input(Fp8Linear.DY_QUANT_SCALE)[0]}
                : Doubles.quantScales(dy, form, rule, type);
        double[] codes = Doubles.encode(dy, form, quantScales);
        return widened(Doubles.decode(codes, form.blocks(), Doubles.scales(quantScales)), product);
    }

    /** The multiplier of dy by its window. */
    private static float windowed(double[] dy, CodedMatrix form, Frame<double[]> frame, float[] window) {
        WindowedScale rule = (WindowedScale) requireNonNull(form.rule());
        float amax = Doubles.amax(dy, CodedMatrix.whole(1, dy.length), rule.isInTime(window))[0];
        float before = (float) frame.input(Fp8Linear.DY_QUANT_SCALE)[0];
        return rule.cast(window, before, amax, form.format().maxValue());
    }

    private static double[] widened(double[] values, ProductForm product) {
        if (!product.onCodes()) {
            for (int i = 0; i < values.length; i++) {
                values[i] = Doubles.round(values[i], product.widened());
            }
        }
        return values;
    }

    /** [in, out], however it lies. */
    private static Matrix weight(Fp8Linear op, double[] w) {
        return Matrix.of(w, op.transB() ? op.in() : op.out()).transposed(op.transB());
    }
}
