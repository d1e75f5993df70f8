package dev.octet.converter.report;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The data of the report. Unknown numbers are NaN, which the page shows as a dash.
 *
 * @param layers converted layers in graph order
 * @param layerMeasure where their SQNR is measured, for example "at the output of each layer"
 * @param activations distinct quantised activations in graph order
 * @param decisions every candidate layer, converted or kept, in graph order
 * @param timings steps in the order they ran
 * @param versions versions of Octet and of the software it ran on
 * @param notes notes of import and lowering, one sentence each
 */
public record ReportData(
        Summary summary,
        List<Layer> layers,
        String layerMeasure,
        List<Activation> activations,
        List<DecisionRow> decisions,
        List<Timing> timings,
        List<Version> versions,
        List<String> notes) {
    public ReportData {
        layers = List.copyOf(layers);
        activations = List.copyOf(activations);
        decisions = List.copyOf(decisions);
        timings = List.copyOf(timings);
        versions = List.copyOf(versions);
        notes = List.copyOf(notes);
    }

    /** A copy with the result of an evaluation. */
    public ReportData withQuality(Quality quality) {
        return new ReportData(
                summary.withQuality(quality), layers, layerMeasure, activations, decisions, timings, versions, notes);
    }

    /**
     * The head of the page.
     *
     * @param model name of the original
     * @param recipe name of the recipe
     * @param calibrator name of the calibrator; empty for recipes without one
     * @param target the software the file is for
     * @param data name of the calibration data; empty without data
     * @param samples samples calibrated on
     * @param originalBytes size of the original file
     * @param convertedBytes size of the converted file
     * @param quality how close the outputs are; null if not evaluated
     */
    public record Summary(
            String model,
            String recipe,
            String calibrator,
            String target,
            String data,
            long samples,
            long originalBytes,
            long convertedBytes,
            @Nullable Quality quality) {
        Summary withQuality(Quality newQuality) {
            return new Summary(
                    model, recipe, calibrator, target, data, samples, originalBytes, convertedBytes, newQuality);
        }
    }

    /**
     * How close the converted model's output is to the original's.
     *
     * @param data name of the evaluation data
     * @param samples samples evaluated on
     * @param cosineMean mean over samples of the cosine between both outputs
     * @param cosineMin the smallest of these
     * @param sqnrDb signal to quantisation noise over all outputs, dB
     * @param spearman rank correlation of the pairwise similarities of all samples
     */
    public record Quality(
            String data, long samples, double cosineMean, double cosineMin, double sqnrDb, double spearman) {}

    /**
     * One converted layer.
     *
     * @param kind {@code Linear}, {@code LayerNorm}, ...
     * @param sqnrDb signal to quantisation noise at the layer's output (where measured) or of its weight, dB
     * @param minScale smallest weight scale (dequantisation multiplier)
     * @param maxScale largest weight scale
     * @param inputClip |x| of the input that maps to the format's largest number; NaN for weight-only
     * @param saturatedShare share of the input's elements beyond the clip, 0..1
     */
    public record Layer(
            String name,
            String kind,
            double sqnrDb,
            double minScale,
            double maxScale,
            double inputClip,
            double saturatedShare) {}

    /**
     * The histogram of one activation's magnitudes.
     *
     * @param firstLog2 log2 of the lower edge of the first bin
     * @param binsPerOctave bins between |x| and 2|x|, at least 1
     * @param counts elements in each bin
     * @param clip chosen clip
     * @param amax largest |x| seen
     */
    public record Activation(
            String name, double firstLog2, int binsPerOctave, List<Long> counts, double clip, double amax) {
        public Activation {
            counts = List.copyOf(counts);
            if (binsPerOctave < 1) {
                throw new IllegalArgumentException("binsPerOctave " + binsPerOctave + " is less than 1");
            }
        }
    }

    /**
     * What happened to a candidate layer.
     *
     * @param reason how it was converted, or why it was kept
     */
    public record DecisionRow(String node, String kind, boolean converted, String reason) {}

    /** Wall-clock seconds of one step. */
    public record Timing(String step, double seconds) {}

    /** The version of a piece of software. */
    public record Version(String name, String version) {}
}
