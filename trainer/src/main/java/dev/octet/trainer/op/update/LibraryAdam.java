package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForms.Arithmetic;

/**
 * A step of Adam or AdamW with the order of roundings of a library that keeps its states in few bits:
 *
 * <pre>
 * MS-AMP             m = β₁ m + (1 - β₁) g     v = β₂ v + (1 - β₂) g²
 *                    AdamW: p *= 1 - lr · weightDecay     p -= lr / (1 - β₁ᵗ) · (m / (√v / √(1 - β₂ᵗ) + eps))
 * Transformer Engine m and v as above          p -= lr · ((m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps) + weightDecay · p)
 * torchao            m += (1 - β₁) (g - m)     v += (1 - β₂) (g² - v)
 *                    AdamW: p -= lr · weightDecay · p     p -= lr · (m / (1 - β₁ᵗ)) / (√v / √(1 - β₂ᵗ) + eps)
 * </pre>
 *
 * <p>Sources: msamp/optim/adamw_base.py and adamw.cu; transformer_engine/common/multi_tensor/adam.cu; torchao/optim/adam.py. With Adam the weight decay is added to the gradient everywhere.
 *
 * @param adam hyperparameters
 * @param arithmetic not torch's, which {@code adam} itself has
 */
public record LibraryAdam(AdamStep adam, Arithmetic arithmetic) implements ElementStep {
    /** Refuses what the libraries lack. */
    public LibraryAdam {
        if (adam.measuresRate() || arithmetic == Arithmetic.TORCH) {
            throw new IllegalArgumentException(adam.type() + " in the arithmetic of " + arithmetic);
        }
    }

    @Override
    public OperandType p() {
        return adam.p();
    }

    @Override
    public int buffers() {
        return 2;
    }

    @Override
    public String type() {
        return adam.type();
    }

    /** What a step's elements share, in F32: {@code decay} is 1 - lr · weightDecay for MS-AMP, weightDecay for Transformer Engine, lr · weightDecay for torchao. */
    record Constants(
            float factor,
            float coupled,
            float decay,
            float beta1,
            float weight1,
            float beta2,
            float weight2,
            float correction1,
            float correction2,
            float lr,
            float eps) {}

    Constants constants(StepScalars s) {
        float lr = (float) s.lr();
        // the libraries' kernels take betas as F32 numbers, and power them in F64
        float correction1 = (float) (1 - Math.pow((float) adam.beta1(), s.t()));
        float correction2 = (float) (1 - Math.pow((float) adam.beta2(), s.t()));
        return switch (arithmetic) {
            case MSAMP ->
                constants(
                        s,
                        (float) adam.kept(s),
                        1 - (float) adam.beta1(),
                        1 - (float) adam.beta2(),
                        correction1,
                        (float) Math.sqrt(correction2),
                        lr / correction1);
            case MSAMP_F32 ->
                constants(
                        s,
                        (float) adam.kept(s),
                        (float) (1 - adam.beta1()),
                        (float) (1 - adam.beta2()),
                        1,
                        (float) adam.rootCorrection(s),
                        (float) adam.stepSize(s));
            case TRANSFORMER_ENGINE ->
                constants(
                        s,
                        adam.decoupled() ? (float) adam.weightDecay() : 0,
                        1 - (float) adam.beta1(),
                        1 - (float) adam.beta2(),
                        correction1,
                        correction2,
                        lr);
            case TORCHAO ->
                constants(
                        s,
                        adam.decoupled() ? lr * (float) adam.weightDecay() : 0,
                        (float) (1 - adam.beta1()),
                        (float) (1 - adam.beta2()),
                        1 - (float) Math.pow((float) adam.beta1(), s.t()),
                        (float) Math.sqrt(1 - (float) Math.pow((float) adam.beta2(), s.t())),
                        lr);
            case TORCH -> throw new IllegalStateException("torch's arithmetic is AdamStep's");
        };
    }

    private Constants constants(
            StepScalars s, float decay, float weight1, float weight2, float correction1, float correction2, float lr) {
        return new Constants(
                (float) s.factor(),
                (float) adam.coupledDecay(),
                decay,
                (float) adam.beta1(),
                weight1,
                (float) adam.beta2(),
                weight2,
                correction1,
                correction2,
                lr,
                (float) adam.eps());
    }

    @Override
    public TileStep tile(StepScalars s) {
        Constants c = constants(s);
        return switch (arithmetic) {
            case MSAMP, MSAMP_F32 -> (p, g, b, n) -> msamp(c, p, g, b[0], b[1], n);
            case TRANSFORMER_ENGINE -> (p, g, b, n) -> transformerEngine(c, p, g, b[0], b[1], n);
            case TORCHAO -> (p, g, b, n) -> torchao(c, p, g, b[0], b[1], n);
            case TORCH -> adam.tile(s);
        };
    }

    private static void msamp(Constants c, float[] p, float[] g, float[] m, float[] v, int n) {
        for (int i = 0; i < n; i++) {
            float dx = g[i] * c.factor + c.coupled * p[i];
            m[i] = c.beta1 * m[i] + c.weight1 * dx;
            v[i] = c.beta2 * v[i] + c.weight2 * (dx * dx);
            float divisor = (float) Math.sqrt(v[i]) / c.correction2 + c.eps;
            p[i] = p[i] * c.decay - c.lr * (m[i] / divisor);
        }
    }

    private static void transformerEngine(Constants c, float[] p, float[] g, float[] m, float[] v, int n) {
        for (int i = 0; i < n; i++) {
            float dx = g[i] * c.factor + c.coupled * p[i];
            m[i] = c.beta1 * m[i] + c.weight1 * dx;
            v[i] = c.beta2 * v[i] + c.weight2 * dx * dx;
            float divisor = (float) Math.sqrt(v[i] / c.correction2) + c.eps;
            float update = (m[i] / c.correction1) / divisor + c.decay * p[i];
            p[i] = p[i] - c.lr * update;
        }
    }

    private static void torchao(Constants c, float[] p, float[] g, float[] m, float[] v, int n) {
        for (int i = 0; i < n; i++) {
            float dx = g[i] * c.factor + c.coupled * p[i];
            float kept = p[i] - c.decay * p[i];
            m[i] = m[i] + c.weight1 * (dx - m[i]);
            v[i] = v[i] + c.weight2 * (dx * dx - v[i]);
            float divisor = (float) Math.sqrt(v[i]) / c.correction2 + c.eps;
            p[i] = kept - c.lr * (m[i] / c.correction1) / divisor;
        }
    }

    @Override
    public CudaRule cuda() {
        CudaRule torch = adam.cuda();
        int id = switch (arithmetic) {
            case TORCH -> 0;
            case MSAMP -> 1;
            case TRANSFORMER_ENGINE -> 2;
            case TORCHAO -> 3;
            case MSAMP_F32 -> 5;
        };
        return new CudaRule(id, torch.numbers(), torch.flag(), torch.weightDecay());
    }

    /** All three are the same formula in exact arithmetic. */
    @Override
    public ElementFormula formula(StepScalars s) {
        return adam.formula(s);
    }
}
