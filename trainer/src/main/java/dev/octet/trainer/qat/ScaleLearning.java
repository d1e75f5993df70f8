package dev.octet.trainer.qat;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.calibrate.Calibrator;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * How scales are learned. They have no weight decay.
 *
 * @param rateFactor their learning rate, as a multiple of the run's; empty for 1 with SGD, whose steps are as long as gradients, and for 1 / largest code with optimizers that
 *     {@linkplain dev.octet.trainer.optimizer.Optimizer#normalizes normalise}: then the largest number that a scale can express moves as the weights do
 * @param startBatches how many micro-batches the ranges of inputs are taken from before the first step
 * @param calibration where the ranges of inputs are taken from instead; empty for the micro-batches
 * @param foldAt the first step for which scales are rounded to {@code type}, and from which they stay; empty for never
 * @param type what scales are rounded to then: the type that they will be stored in, so that an export rounds nothing
 */
public record ScaleLearning(
        OptionalDouble rateFactor,
        int startBatches,
        Optional<Calibration> calibration,
        OptionalLong foldAt,
        DType type) {
    /** The rate of the run, ranges of one micro-batch, no folding. */
    public static final ScaleLearning DEFAULT =
            new ScaleLearning(OptionalDouble.empty(), 1, Optional.empty(), OptionalLong.empty(), DType.F32);

    /**
     * The statistics of a calibrated model.
     *
     * @param statistics the file
     * @param calibrator which part of the values that it saw codes are to cover
     */
    public record Calibration(Path statistics, Calibrator calibrator) {}
}
