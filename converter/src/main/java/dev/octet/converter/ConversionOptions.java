package dev.octet.converter;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.gptq.SecondMoment;
import java.util.Map;

/**
 * How a plan is carried out.
 *
 * @param target the software that will load the file
 * @param calibrator derives activation scales from statistics. Absmax is the default: FP8 is a float format and pays little for
 *     range, while clipping costs much (clipping at the 99.99th percentile took MiniLM's mean cosine from .9977 to .9944)
 * @param moments second moments of activations by value name, from {@link Converter#moments}: weights that multiply these values are
 *     rounded with compensation (GPTQ), all others to nearest
 * @param threads threads that cast weights; the result does not depend on the number
 * @param saturation what weights of 8 bits do about products that saturate on processors without VNNI
 */
public record ConversionOptions(
        OnnxTarget target,
        Calibrator calibrator,
        Map<String, SecondMoment> moments,
        int threads,
        Saturation saturation) {
    /** What weights of 8 bits do about products that saturate on processors without VNNI. */
    public enum Saturation {
        /** Nothing: all codes are used. */
        ALLOWED,
        /** They stay within the bound of {@link dev.octet.quant.gptq.BoundedPairs}. */
        EXCLUDED
    }

    public ConversionOptions {
        moments = Map.copyOf(moments);
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** For ONNX Runtime, absmax, weights rounded to nearest, all cores. */
    public static ConversionOptions defaults() {
        return new ConversionOptions(
                OnnxTarget.ONNXRUNTIME,
                new Absmax(),
                Map.of(),
                Runtime.getRuntime().availableProcessors(),
                Saturation.ALLOWED);
    }

    /** A copy with this target. */
    public ConversionOptions withTarget(OnnxTarget newTarget) {
        return new ConversionOptions(newTarget, calibrator, moments, threads, saturation);
    }

    /** A copy with this calibrator. */
    public ConversionOptions withCalibrator(Calibrator newCalibrator) {
        return new ConversionOptions(target, newCalibrator, moments, threads, saturation);
    }

    /** A copy with these moments. */
    public ConversionOptions withMoments(Map<String, SecondMoment> newMoments) {
        return new ConversionOptions(target, calibrator, newMoments, threads, saturation);
    }

    /** A copy with this number of threads. */
    public ConversionOptions withThreads(int newThreads) {
        return new ConversionOptions(target, calibrator, moments, newThreads, saturation);
    }

    /** A copy that deals with saturation so. */
    public ConversionOptions withSaturation(Saturation newSaturation) {
        return new ConversionOptions(target, calibrator, moments, threads, newSaturation);
    }
}
