package dev.octet.pipeline;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The steps from the plan of a graph to its conversion, in this order, each with its progress: statistics of activations, second moments for
 * rounding, the rewrite, the errors of the layers.
 *
 * @param unit what a sample is called, as "samples"
 */
record QuantizeSteps(Converter converter, Plan plan, Job job, String unit) {
    /** Names of the modules that read each value, by which files of statistics of checkpoints know it. */
    Map<String, List<String>> modules() {
        return ModuleTaps.byValue(converter.canonical());
    }

    /** Statistics, and second moments next to them where wanted, as {@link Calibrate} takes them: all in one run. */
    void calibrateInto(Path file, Dataset samples, ModelSource source, boolean secondMoments) throws IOException {
        CalibrationOptions options = job.calibration("calibrating", unit)
                .withSecondMoments(secondMoments ? SecondMomentsFile.besides(file) : null);
        StatisticsFile.write(
                source.huggingFace().isPresent()
                        ? converter.calibrateModules(samples, source.digest(), options)
                        : converter.calibrate(plan, samples, source.digest(), options),
                file);
    }

    /** Statistics of the values that the recipe needs scales for. */
    Statistics calibrate(Dataset samples, String modelDigest, CalibrationOptions options) throws IOException {
        return converter.calibrate(plan, samples, modelDigest, options);
    }

    /** Second moments of what the Linears read, for rounding with compensation. */
    Map<String, SecondMoment> moments(Dataset samples) throws IOException {
        return converter.moments(plan, samples, job.calibration("measuring for rounding", unit));
    }

    /** The rewritten and lowered graph. */
    Conversion convert(@Nullable Statistics statistics, ConversionOptions options) {
        return converter.convert(plan, statistics, options);
    }

    /** The conversion with its layers compared on some of the samples. */
    Conversion measure(Conversion conversion, Dataset samples) throws IOException {
        return converter.measure(conversion, samples, job.evaluation("comparing layers", unit));
    }
}
