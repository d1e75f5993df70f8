package dev.octet.trainer.step;

import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.reduction.ReductionReport;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The result of a step.
 *
 * @param loss mean over its micro-batches, without loss scale
 * @param lossParts terms of the loss if it is a weighted sum, as in {@link dev.octet.trainer.loss.LossValue}
 * @param gradNorm global gradient norm before clipping, without loss scale
 * @param skipped whether the parameters were left unchanged because something was not finite
 * @param nonFinite what was not finite: {@code loss} or parameters with bad gradients; empty when all was finite
 * @param where the program's first step with a non-finite result; empty when it was not searched for
 * @param lossScale scale that the loss was multiplied by
 * @param nextLossScale scale of the next loss
 * @param fp8 how well tensors fitted their FP8 codes, in the order in which they were first cast; empty when not measured
 * @param ranks how the average of simulated ranks fitted E4M3; empty without ranks
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
        List<Fp8Tensor> fp8,
        Optional<ReductionReport> ranks) {
    public StepResult {
        fp8 = List.copyOf(fp8);
    }
}
