package dev.octet.trainer.hook;

import dev.octet.trainer.reduction.ReductionReport;
import java.util.Map;
import java.util.Optional;

/**
 * Metrics of one step.
 *
 * @param step from 1
 * @param loss mean over its micro-batches, without loss scale
 * @param lossParts terms of the loss if it is a weighted sum: {@code task} and {@code distillation}
 * @param lr learning rate
 * @param gradNorm global gradient norm before clipping; NaN when not computed
 * @param skipped whether the parameters were left unchanged
 * @param lossScale scale that the loss was multiplied by; 1 without loss scaling
 * @param samples number of samples
 * @param tokens number of tokens, including padding; the number of samples for data without a second axis
 * @param epoch how often the training samples have been read after this step, as 1.25
 * @param seconds total time
 * @param dataSeconds part of it spent reading samples
 * @param memoryBytes buffers on the device: parameters, state and what a step needs; not the memory of the process
 * @param ranks how the average of simulated ranks fitted E4M3; empty without ranks
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
        double epoch,
        double seconds,
        double dataSeconds,
        long memoryBytes,
        Optional<ReductionReport> ranks) {}
