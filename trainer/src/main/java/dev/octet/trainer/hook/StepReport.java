package dev.octet.trainer.hook;

import java.util.Map;

/**
 * One step.
 *
 * @param step from 1
 * @param loss mean over its micro-batches, without loss scale
 * @param lossParts where the loss is a weighted sum, its parts: {@code task} and {@code distillation}
 * @param lr learning rate
 * @param gradNorm norm of all gradients together before clipping; NaN when nothing computed it
 * @param skipped whether parameters stayed as they were
 * @param lossScale what the loss was multiplied with; 1 without loss scaling
 * @param samples in it
 * @param tokens in it, padding counted; the number of samples for data without a second axis
 * @param seconds it took, all counted
 * @param dataSeconds of these reading samples
 * @param memoryBytes on the device
 */
public record StepReport(
        long step,
        double loss,
        Map<String, Double> lossParts,
        double lr,
        double gradNorm,
        boolean skipped,
        double lossScale,
        long samples,
        long tokens,
        double seconds,
        double dataSeconds,
        long memoryBytes) {}
