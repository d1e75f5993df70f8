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
 * @param parts the bytes of the original and of the converted file, by kind of constant
 * @param trained the converted model after training; null without
 * @param run command, date, digests, versions, times
 * @param notes notes of import and lowering, one sentence each
 */
public record ReportData(
        Summary summary,
        List<Layer> layers,
        String layerMeasure,
        List<Activation> activations,
        List<DecisionRow> decisions,
        List<Part> parts,
        @Nullable Trained trained,
        RunFacts run,
        List<String> notes) {
    public ReportData {
        layers = List.copyOf(layers);
        activations = List.copyOf(activations);
        decisions = List.copyOf(decisions);
        parts = List.copyOf(parts);
        notes = List.copyOf(notes);
    }

    /** A copy with the result of an evaluation. */
    public ReportData withQuality(Quality quality) {
        return new ReportData(
                summary.withQuality(quality), layers, layerMeasure, activations, decisions, parts, trained, run, notes);
    }

    /** A copy with what came of training the converted model. */
    public ReportData withTrained(Trained newTrained, RunFacts newRun) {
        return new ReportData(summary, layers, layerMeasure, activations, decisions, parts, newTrained, newRun, notes);
    }

    /**
     * The head of the page.
     *
     * @param model name of the original
     * @param recipe name of the recipe
     * @param rounding how weights are rounded, and why so; empty where nobody says
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
            String rounding,
            String calibrator,
            String target,
            String data,
            long samples,
            long originalBytes,
            long convertedBytes,
            @Nullable Quality quality) {
        Summary withQuality(Quality newQuality) {
            return new Summary(
                    model,
                    recipe,
                    rounding,
                    calibrator,
                    target,
                    data,
                    samples,
                    originalBytes,
                    convertedBytes,
                    newQuality);
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
     * The bytes of one kind of constant.
     *
     * @param name as "Linears", "embeddings"
     * @param original bytes in the original
     * @param converted bytes in the converted model
     */
    public record Part(String name, long original, long converted) {}

    /**
     * Another conversion of the same original, before and after training.
     *
     * @param model the file of the trained model
     * @param before outputs against the original's before training
     * @param quality outputs against the original's after training
     * @param loss loss of training by step
     * @param evalLoss loss on evaluation data by step; empty without
     */
    public record Trained(String model, Quality before, Quality quality, List<Point> loss, List<Point> evalLoss) {
        public Trained {
            loss = List.copyOf(loss);
            evalLoss = List.copyOf(evalLoss);
        }
    }

    /** The same with other layers. */
    public ReportData withLayers(List<Layer> newLayers) {
        return new ReportData(summary, newLayers, layerMeasure, activations, decisions, parts, trained, run, notes);
    }

    /** A value after a step of training. */
    public record Point(long step, double value) {}

    /**
     * One converted layer.
     *
     * @param kind {@code Linear}, {@code LayerNorm}, ...
     * @param sqnrDb signal to quantisation noise at the layer's output (where measured) or of its weight, dB
     * @param minScale smallest weight scale (dequantisation multiplier)
     * @param maxScale largest weight scale
     * @param inputClip |x| of the input that maps to the format's largest number; NaN for weight-only
     * @param saturatedShare share of the input's elements beyond the clip, 0..1
     * @param predictedDb signal-to-noise ratio at the output of the layer alone, predicted from statistics; NaN where not predicted
     * @param aloneDb the same measured, on inputs of the original model; NaN where not measured
     */
    public record Layer(
            String name,
            String kind,
            double sqnrDb,
            double minScale,
            double maxScale,
            double inputClip,
            double saturatedShare,
            double predictedDb,
            double aloneDb) {
        /** A layer of which nothing was predicted. */
        public Layer(
                String name,
                String kind,
                double sqnrDb,
                double minScale,
                double maxScale,
                double inputClip,
                double saturatedShare) {
            this(name, kind, sqnrDb, minScale, maxScale, inputClip, saturatedShare, Double.NaN, Double.NaN);
        }

        /** The same with a prediction, and what was measured. */
        public Layer withPrediction(double newPredictedDb, double newAloneDb) {
            return new Layer(
                    name, kind, sqnrDb, minScale, maxScale, inputClip, saturatedShare, newPredictedDb, newAloneDb);
        }
    }

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
