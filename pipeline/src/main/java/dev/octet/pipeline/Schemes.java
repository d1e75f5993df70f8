package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.InstrumentedModel;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.converter.sensitivity.ErrorMeasurement;
import dev.octet.converter.sensitivity.ErrorPrediction;
import dev.octet.converter.sensitivity.LinearError;
import dev.octet.converter.sensitivity.LinearFormat;
import dev.octet.converter.sensitivity.LinearLayer;
import dev.octet.converter.sensitivity.LinearLayers;
import dev.octet.converter.sensitivity.LinearWeights;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.Quantize.WeightRounds;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The schemes that a file of statistics and its second moments can solve, each with its size and with the error of every Linear's output as
 * {@link ErrorPrediction} foretells it: what {@code octet quantize --dry-run --statistics FILE} prints, and with {@code --compare} for all
 * schemes. No model runs and nothing is written.
 */
public final class Schemes {
    private Schemes() {}

    /**
     * What to predict.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param statistics a file of {@link Calibrate} with second moments
     * @param keep layers whose names contain a match stay as they are
     * @param only the weights to look at; empty for all, but for the output head of a checkpoint, which stays as it is
     */
    public record Request(Path model, Path statistics, Calibrator calibrator, List<Pattern> keep, Set<String> only) {
        public Request {
            keep = List.copyOf(keep);
            only = Set.copyOf(only);
        }

        /** Of all Linears but those that are kept. */
        public Request(Path model, Path statistics, Calibrator calibrator, List<Pattern> keep) {
            this(model, statistics, calibrator, keep, Set.of());
        }

        /** The same of these weights. */
        public Request only(Set<String> weights) {
            return new Request(model, statistics, calibrator, keep, weights);
        }

        /** Of all Linears, with absmax. */
        public static Request of(Path model, Path statistics) {
            return new Request(model, statistics, new Absmax(), List.of());
        }
    }

    /**
     * A Linear in a scheme; signal-to-noise ratios of its output in dB, alone, on the inputs of the original model.
     *
     * @param weight the name of its weight
     * @param predictedDb of both errors together
     * @param weightDb of the weight's rounding alone
     * @param inputDb of the input's rounding alone; infinite where it is left as it is
     * @param measuredDb what samples gave; null without samples
     */
    public record Layer(
            String weight,
            double predictedDb,
            double weightDb,
            double inputDb,
            @Nullable Double measuredDb) {
        private static Layer of(String weight, LinearError e, @Nullable LinearError truth) {
            return new Layer(
                    weight,
                    e.sqnrDb(),
                    new LinearError(e.signal(), e.ofWeight(), 0).sqnrDb(),
                    new LinearError(e.signal(), 0, e.ofInput()).sqnrDb(),
                    truth == null ? null : truth.sqnrDb());
        }
    }

    /**
     * A scheme.
     *
     * @param recipe as {@code --recipe} takes it; {@code int4} is only predicted
     * @param rounding {@code nearest} or {@code gptq}, and how scales are searched where they are: {@code nearest, scales by mse}
     * @param weightBytes of all quantised weights with their scales
     * @param bitsPerWeight the same over their elements
     * @param sqnrDb of the mean over the Linears of noise over signal; NaN where none can have the format
     * @param layers in the order of the graph; without those that cannot have the format
     * @param refused how many cannot
     */
    public record Scheme(
            String recipe,
            String rounding,
            long weightBytes,
            double bitsPerWeight,
            double sqnrDb,
            List<Layer> layers,
            int refused) {
        public Scheme {
            layers = List.copyOf(layers);
        }
    }

    /**
     * All schemes, the one with the least error first.
     *
     * @param samples how many the statistics are of
     */
    public record Comparison(
            String model, String statistics, String calibrator, long samples, List<Scheme> schemes, double seconds) {
        public Comparison {
            schemes = List.copyOf(schemes);
        }
    }

    /**
     * Predicts all schemes.
     *
     * @throws InvalidDataException when the file lacks something, naming it and the command that makes it
     * @throws IOException when reading fails
     */
    public static Comparison compare(Request request, Job job) throws IOException {
        Stopwatch watch = new Stopwatch();
        try (Predictor predictor = Predictor.open(request, job)) {
            List<Scheme> schemes = new ArrayList<>();
            for (LinearFormat format : predictor.formats()) {
                schemes.add(predictor.predict(format, WeightRounds.NEAREST, Map.of()));
                if (predictor.isCheckpoint() || LinearWeights.roundsWithCompensation(format)) {
                    schemes.add(predictor.predict(format, WeightRounds.GPTQ, Map.of()));
                }
            }
            schemes.sort(Comparator.comparingDouble((Scheme s) -> -s.sqnrDb()));
            return new Comparison(
                    request.model().toString(),
                    request.statistics().toString(),
                    request.calibrator().text(),
                    predictor.statistics.samplesDone(),
                    schemes,
                    watch.seconds());
        }
    }

    /**
     * Predicts one scheme.
     *
     * @throws InvalidDataException as {@link #compare}
     */
    public static Scheme predict(Request request, Recipe recipe, WeightRounds rounding, Job job) throws IOException {
        try (Predictor predictor = Predictor.open(request, job)) {
            return predictor.predict(LinearFormat.of(recipe), rounding, Map.of());
        }
    }

    /**
     * Predicts one scheme and measures it on samples, layer by layer: prediction and truth side by side.
     *
     * @param samples run through the original model
     * @throws InvalidDataException as {@link #compare}
     */
    public static Scheme measure(Request request, Recipe recipe, WeightRounds rounding, SampleSource samples, Job job)
            throws IOException {
        try (Predictor predictor = Predictor.open(request, job)) {
            LinearFormat format = LinearFormat.of(recipe);
            return predictor.predict(format, rounding, predictor.measure(format, rounding, samples));
        }
    }

    /** A model with its statistics and second moments open. */
    private static final class Predictor implements AutoCloseable {
        private final Request request;
        private final Job job;
        private final ModelSource source;
        private final Converter converter;
        private final Statistics statistics;
        private final SecondMomentsFile moments;
        private final List<LinearLayer> layers;
        /** Names in the files by value of the graph. */
        private final Map<String, List<String>> modules;

        private Predictor(
                Request request,
                Job job,
                ModelSource source,
                Converter converter,
                Statistics statistics,
                SecondMomentsFile moments) {
            this.request = request;
            this.job = job;
            this.source = source;
            this.converter = converter;
            this.statistics = statistics;
            this.moments = moments;
            Plan plan = converter.plan(Recipes.FP8_WEIGHT_ONLY, request.keep());
            boolean checkpoint = source.huggingFace().isPresent();
            layers = LinearLayers.of(converter.canonical().graph(), plan).stream()
                    .filter(l -> request.only().isEmpty()
                            ? !checkpoint || LinearNames.role(l.weight(), l.shape()) == TensorRole.LINEAR
                            : request.only().contains(l.weight()))
                    .toList();
            modules = ModuleTaps.byValue(converter.canonical());
        }

        static Predictor open(Request request, Job job) throws IOException {
            Statistics statistics = StatisticsFile.read(request.statistics());
            MomentsFile file = new MomentsFile(request.statistics());
            if (!file.exists()) {
                throw new InvalidDataException(
                        "errors are predicted from second moments of the layers' inputs, and there is no "
                                + file.path(),
                        request.statistics().toString(),
                        CalibrateCommandLine.of(request.model(), request.statistics(), "--second-moments"));
            }
            ModelSource source = ModelSource.open(request.model());
            SecondMomentsFile moments = null;
            Converter converter = null;
            try {
                if (!source.digest().equals(statistics.modelDigest())) {
                    throw new InvalidDataException(
                            "the statistics are of another model than '" + request.model() + "'",
                            request.statistics().toString(),
                            CalibrateCommandLine.of(request.model(), request.statistics(), "--second-moments --force"));
                }
                moments = file.open(statistics);
                converter = source.converter();
                return new Predictor(request, job, source, converter, statistics, moments);
            } catch (IOException | RuntimeException e) {
                if (moments != null) {
                    moments.close();
                }
                if (converter != null) {
                    converter.close();
                }
                source.close();
                throw e;
            }
        }

        boolean isCheckpoint() {
            return source.huggingFace().isPresent();
        }

        List<LinearFormat> formats() {
            List<Recipe> recipes = isCheckpoint() ? Recipes.CHECKPOINT : Recipes.GRAPH;
            Map<String, LinearFormat> formats = new LinkedHashMap<>();
            recipes.forEach(r ->
                    Optional.ofNullable(LinearFormat.ALL.get(r.ownName())).ifPresent(f -> formats.put(f.name(), f)));
            return List.copyOf(formats.values());
        }

        /**
         * @param truth measured errors by weight; empty for none
         */
        Scheme predict(LinearFormat format, WeightRounds rounding, Map<String, LinearError> truth) {
            List<Layer> predicted = new ArrayList<>();
            long bits = 0;
            long elements = 0;
            double relative = 0;
            int done = 0;
            for (LinearLayer layer : layers) {
                job.listener().progress("predicting " + format.name(), ++done, layers.size(), "Linears");
                if (format.refusal(layer.shape()).isPresent()) {
                    continue;
                }
                String name = name(layer);
                TensorStatistics input = input(name);
                double[] variances = ErrorPrediction.inputVariances(format, input, request.calibrator());
                SecondMoment moment = moments.read(name);
                try (Arena arena = Arena.ofShared()) {
                    Tensor weight = LinearWeights.outIn(converter.canonical().graph(), layer, job.threads(), arena);
                    Tensor rounded = rounded(format, rounding, weight, moment, arena);
                    LinearError error = ErrorPrediction.of(weight, rounded, moment, variances);
                    predicted.add(Layer.of(layer.weight(), error, truth.get(layer.weight())));
                    relative += error.relative();
                }
                bits += format.bits(layer.shape());
                elements += layer.elements();
            }
            return new Scheme(
                    format.name(),
                    rounding.text(),
                    bits / 8,
                    elements == 0 ? 0 : (double) bits / elements,
                    predicted.isEmpty() ? Double.NaN : LinearError.db(relative / predicted.size()),
                    predicted,
                    layers.size() - predicted.size());
        }

        Map<String, LinearError> measure(LinearFormat format, WeightRounds rounding, SampleSource from)
                throws IOException {
            ErrorMeasurement measurement = new ErrorMeasurement(request.calibrator());
            for (LinearLayer layer : layers) {
                if (format.refusal(layer.shape()).isPresent()) {
                    continue;
                }
                String name = name(layer);
                SecondMoment moment = moments.read(name);
                try (Arena own = Arena.ofShared()) {
                    Tensor weight = LinearWeights.outIn(converter.canonical().graph(), layer, job.threads(), own);
                    measurement.add(
                            layer.weight(),
                            layer.inputs().getFirst(),
                            format,
                            weight,
                            rounded(format, rounding, weight, moment, own),
                            input(name));
                }
            }
            try (Dataset samples = from.open(request.model(), InputSpec.of(converter.source()), job);
                    InstrumentedModel model = InstrumentedModel.open(
                            converter.runnable(), measurement.inputs(), new SessionSettings(job.threads(), false))) {
                model.run(samples, 0, Math.min(CalibrationOptions.DEFAULT_BATCH, samples.largestBatch()), measurement);
            }
            return measurement.errors();
        }

        private Tensor rounded(
                LinearFormat format, WeightRounds rounding, Tensor weight, SecondMoment moment, Arena arena) {
            boolean gptq = rounding.method() == Quantize.Rounding.GPTQ;
            if (isCheckpoint()) {
                return LinearWeights.inCheckpoint(
                        format, weight, moment, rounding.search(), gptq ? rounding.gptq() : null, arena);
            }
            return gptq
                    ? LinearWeights.compensated(format, weight, moment, job.threads(), arena)
                    : LinearWeights.nearest(format, weight, arena);
        }

        private TensorStatistics input(String name) {
            TensorStatistics input = statistics.tensors().get(name);
            if (input == null || input.channels() == null) {
                throw new InvalidDataException(
                        "the statistics have no channels of '" + name + "': an earlier Octet took them",
                        request.statistics().toString(),
                        CalibrateCommandLine.of(request.model(), request.statistics(), "--second-moments --force"));
            }
            return input;
        }

        /** What the files call the input of a Linear. */
        private String name(LinearLayer layer) {
            String value = layer.inputs().getFirst();
            if (moments.held(value) != null) {
                return value;
            }
            return modules.getOrDefault(value, List.of()).stream()
                    .filter(n -> moments.held(n) != null)
                    .findFirst()
                    .orElseThrow(() -> new InvalidDataException(
                            "the second moments lack the input of '" + layer.weight() + "'",
                            SecondMomentsFile.besides(request.statistics()).toString(),
                            CalibrateCommandLine.of(
                                    request.model(), request.statistics(), "--second-moments --force")));
        }

        @Override
        public void close() throws IOException {
            moments.close();
            converter.close();
            source.close();
        }
    }
}
