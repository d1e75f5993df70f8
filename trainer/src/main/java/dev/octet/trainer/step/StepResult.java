package dev.octet.trainer.step;

import dev.octet.trainer.hook.Fp8Tensor;
import java.util.List;
import java.util.Map;

/**
 * What a step did.
 *
 * @param loss mean over its micro-batches, without loss scale
 * @param lossParts what the loss is the weighted sum of, as {@link dev.octet.trainer.loss.LossValue} has them
 * @param gradNorm norm of all gradients together before clipping, loss scale taken out
 * @param skipped whether parameters stayed as they were, because something was not finite
 * @param nonFinite what was not finite: {@code loss}, or the gradients' parameters; empty when all was finite
 * @param where the program's first step whose result was not finite; empty when it was not searched for
 * @param lossScale what the loss was multiplied with
 * @param nextLossScale what the next one will be
 * @param fp8 how tensors fitted their FP8 codes, in the order in which they were first cast; empty when it was not measured
 */
public record StepResult(
        double loss,
        Map<String, Double> lossParts,
        double gradNorm,
        boolean skipped,
        String nonFinite,
        String where,
        double lossScale,
        double nextLossScale,
        List<Fp8Tensor> fp8) {
    public StepResult {
        fp8 = List.copyOf(fp8);
    }
}
