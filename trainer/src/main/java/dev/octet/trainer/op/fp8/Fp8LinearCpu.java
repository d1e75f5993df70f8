package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.kernel.Scratch;
import dev.octet.trainer.op.product.Rows;
import org.jspecify.annotations.Nullable;

/**
 * Codes are decoded to BF16 just before a product, which a processor multiplies; activations are kept as codes until then. The gradient is
 * quantised and decoded once when dgrad and wgrad take it alike, a large one with one scale band by band for each of them.
 */
public final class Fp8LinearCpu implements CpuKernel<Fp8Linear> {
    @Override
    public void forward(Fp8Linear op, Frame<CpuTensor> frame, CpuContext cpu) {
        ProductForm form = op.fprop();
        ScaledProduct product = new ScaledProduct(form, true, op.transB(), cpu);
        Operand x = input(form.left(), product, frame, Fp8Linear.X, Fp8Linear.X_CODES, ScaledProduct.LEFT);
        Operand w = input(form.right(), product, frame, Fp8Linear.W_NARROW, Fp8Linear.W_CODES, ScaledProduct.RIGHT);
        float[] bias = op.hasBias() ? bias(op, frame.input(Fp8Linear.BIAS)) : null;
        ScaledProduct.Size size = new ScaledProduct.Size(op.rows(), op.out(), op.in());
        product.compute(false, op.transB(), size, x, w, bias, frame.output(0), false);
    }

    private static float[] bias(Fp8Linear op, CpuTensor bias) {
        float[] values = new float[op.out()];
        bias.read(0, values, 0, values.length);
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) Doubles.round(values[i], op.biasType());
        }
        return values;
    }

    @Override
    public void backward(Fp8Linear op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        Gradient gradient = new Gradient(op, dy, frame, cpu.parallel());
        if (frame.wantsGradient(Fp8Linear.X)) {
            ProductForm form = op.dgrad();
            ScaledProduct product = new ScaledProduct(form, true, !op.transB(), cpu);
            int codes = op.dgradHasOwnWeight() ? Fp8Linear.W_CODES_DGRAD : Fp8Linear.W_CODES;
            Operand up = gradient.operand(form, product);
            Operand w = input(form.right(), product, frame, Fp8Linear.W_NARROW, codes, ScaledProduct.RIGHT);
            ScaledProduct.Size size = new ScaledProduct.Size(op.rows(), op.in(), op.out());
            CpuTensor dx = frame.gradient(Fp8Linear.X);
            product.compute(false, !op.transB(), size, up, w, null, dx, frame.accumulates(Fp8Linear.X));
        }
        if (frame.wantsGradient(Fp8Linear.W)) {
            weightGradient(op, frame, gradient, cpu);
        }
        if (op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS)) {
            CpuTensor db = frame.gradient(Fp8Linear.BIAS);
            Rows.sum(dy, db, op.rows(), op.out(), frame.accumulates(Fp8Linear.BIAS), cpu.parallel());
        }
        gradient.record();
    }

    private static void weightGradient(Fp8Linear op, Frame<CpuTensor> frame, Gradient gradient, CpuContext cpu) {
        ProductForm form = op.wgrad();
        ScaledProduct product = new ScaledProduct(form, false, false, cpu);
        int codes = op.wgradHasOwnInput() ? Fp8Linear.X_CODES_WGRAD : Fp8Linear.X_CODES;
        Operand up = gradient.operand(form, product);
        Operand x = input(form.right(), product, frame, Fp8Linear.X, codes, ScaledProduct.RIGHT);
        CpuTensor dw = frame.gradient(Fp8Linear.W);
        boolean add = frame.accumulates(Fp8Linear.W);
        if (op.transB()) {
            product.compute(true, false, new ScaledProduct.Size(op.out(), op.in(), op.rows()), up, x, null, dw, add);
        } else {
            product.compute(true, false, new ScaledProduct.Size(op.in(), op.out(), op.rows()), x, up, null, dw, add);
        }
    }

    /** x or w as a product takes it. */
    private static Operand input(
            @Nullable CodedMatrix form,
            ScaledProduct product,
            Frame<CpuTensor> frame,
            int plain,
            int codes,
            Scratch place) {
        if (form == null) {
            CpuTensor x = frame.input(plain);
            return new Operand.Whole(x.dtype(), x.bytes(), null, null);
        }
        CpuTensor stored = frame.input(codes + 1);
        float[] scales = new float[Math.toIntExact(form.blocks().scaleCount())];
        stored.read(0, scales, 0, scales.length);
        return product.decoded(form, frame.input(codes).bytes(), scales, place);
    }

    /** dy, quantised when first asked for, and again only when asked for in another form. */
    private static final class Gradient {
        private final Fp8Linear op;
        private final CpuTensor dy;
        private final Frame<CpuTensor> frame;
        private final Parallel parallel;
        private @Nullable CodedMatrix form;
        private float[] quantScales = new float[1];
        private @Nullable Operand operand;
        private boolean scalesSums;

        Gradient(Fp8Linear op, CpuTensor dy, Frame<CpuTensor> frame, Parallel parallel) {
            this.op = op;
            this.dy = dy;
            this.frame = frame;
            this.parallel = parallel;
        }

        Operand operand(ProductForm productForm, ScaledProduct product) {
            CodedMatrix wanted = productForm.left();
            if (wanted == null) {
                return new Operand.Whole(dy.dtype(), dy.bytes(), null, null);
            }
            if (operand != null
                    && wanted.equals(form)
                    && product.scalesSums() == scalesSums
                    && operand.type() == product.type()) {
                return operand;
            }
            MatrixCodes matrix = new MatrixCodes(wanted.blocks(), parallel);
            QuantScaleRule rule = wanted.rule();
            if (rule == null) {
                quantScales = new float[1];
                frame.input(Fp8Linear.DY_QUANT_SCALE).read(0, quantScales, 0, 1);
            } else if (rule instanceof WindowedScale windowed) {
                Window window = new Window(
                        new WindowUpdate.Slot(wanted.format(), windowed),
                        frame.input(Fp8Linear.DY_QUANT_SCALE),
                        frame.input(Fp8Linear.DY_HISTORY),
                        true);
                quantScales = new float[] {window.cast(dy, wanted.blocks(), parallel)};
            } else if (!wanted.equals(form)) {
                quantScales = matrix.quantScales(dy, wanted.format(), rule);
            }
            form = wanted;
            scalesSums = product.scalesSums();
            operand = product.rounded(wanted, dy, quantScales);
            return operand;
        }

        /** Delayed scaling: the amax that a later step's scale comes from. */
        void record() {
            if (frame.hasInput(Fp8Linear.DY_HISTORY) && !op.hasWindow()) {
                Blocks whole = CodedMatrix.whole(op.rows(), op.out());
                float amax = new MatrixCodes(whole, parallel).amax(dy, false)[0];
                QuantizeFp8DelayedCpu.record(amax, frame.input(Fp8Linear.DY_HISTORY));
            }
        }
    }
}
