package dev.octet.trainer.op.qat;

/**
 * What the derivative of a rounding is taken to be. G is the gradient of the result, v = (x - offset) / step, q the code, sums are over the elements that share a step.
 */
public enum StepRule {
    /**
     * ModelOpt's fake quantisation with a fixed amax (torch/quantization/tensor_quant.py of 0.46): dx = G where |x| is at most the largest number times the step, else 0. Under a zero
     * point dx = G where the code is not clipped, as torchao has it for dynamic integers (autograd through the clamp of {@code _fake_quantize_affine}, qparams under no_grad).
     */
    CLIPPED,
    /** dx = G, as ModelOpt has it for MX formats and with {@code pass_through_bwd}. */
    PASSED,
    /**
     * Learned step size quantisation (Esser et al., arXiv:1902.08153, equations 3 and 5): dx = G where low < v < high; dstep = factor · Σ G · (low where v is at most low, high where
     * it is at least high, else q - v). An offset, as LSQ+ learns it (Bhalgat et al., arXiv:2004.09576, equation 5): doffset = factor · Σ G outside.
     */
    LSQ,
    /** PACT (Choi et al., arXiv:1805.06085, equation 3) for results of ReLUs: the parameter is the largest value α; dx = G where 0 ≤ x ≤ α, dα = factor · Σ G where x ≥ α. */
    PACT,
    /**
     * torchao's range learning: autograd of (clamp(round(x / step) + zero, low, high) - zero) · step with rounding left out: dx = G where the code is not clipped, dstep = Σ G · (q - zero
     * - (x / step where it is not clipped)), dzero = -step · Σ G where it is clipped.
     */
    RANGE,
    /**
     * ModelOpt's LSQ of 0.46 (torch/quantization/nn/modules/tensor_quantizer.py, {@code enable_lsq}): codes are made with one step and read with another, q(x / pre) · post; dx = G · post
     * / pre where |x / pre| is at most the largest number, dpost = Σ G · q, dpre = -Σ G · v · post / pre where it is. With one step for both, the sum of the two.
     */
    SCALED;

    /** Whether a gradient flows to the step. */
    public boolean learnsStep() {
        return this == LSQ || this == PACT || this == RANGE || this == SCALED;
    }
}
