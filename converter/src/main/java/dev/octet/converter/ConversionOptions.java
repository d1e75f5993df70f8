package dev.octet.converter;

import dev.octet.converter.lower.Target;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;

/**
 * How a plan is carried out.
 *
 * @param target who will load the file
 * @param calibrator how activation scales follow from statistics. Absmax is the default: FP8 is a float format and pays little for
 *     range, while clipping costs much (clipping at the 99.99th percentile took MiniLM's mean cosine from .9977 to .9944)
 * @param threads threads for casting weights; the result does not depend on it
 */
public record ConversionOptions(Target target, Calibrator calibrator, int threads) {
    public ConversionOptions {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** For ONNX Runtime, absmax, all cores. */
    public static ConversionOptions defaults() {
        return new ConversionOptions(
                Target.ONNXRUNTIME, new Absmax(), Runtime.getRuntime().availableProcessors());
    }

    public ConversionOptions withTarget(Target newTarget) {
        return new ConversionOptions(newTarget, calibrator, threads);
    }

    public ConversionOptions withCalibrator(Calibrator newCalibrator) {
        return new ConversionOptions(target, newCalibrator, threads);
    }

    public ConversionOptions withThreads(int newThreads) {
        return new ConversionOptions(target, calibrator, newThreads);
    }
}
