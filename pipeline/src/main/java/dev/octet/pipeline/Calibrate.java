package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.converter.runtime.NewStatistics;
import dev.octet.converter.runtime.ProgressListener;
import dev.octet.converter.runtime.Tap;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.ExpertCoverage;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet calibrate}: runs samples through a model and writes the statistics of its activations, which {@link Quantize} chooses scales
 * from. A job that was interrupted is continued by the same call.
 *
 * <pre>{@code
 * Calibrate.run(Calibrate.Request.of(model, Path.of("model.stats"), SampleSource.of(samples)), Job.defaults());
 * }</pre>
 */
public final class Calibrate {
    /** Often enough that little is lost, seldom enough to cost nothing. */
    private static final int CHECKPOINT_SAMPLES = 64;

    private Calibrate() {}

    /**
     * What to do.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param output a file of statistics
     * @param memoryBytes for weights: a model with more runs piece by piece, with the same statistics
     */
    public record Request(Path model, Path output, SampleSource samples, long memoryBytes, Set<Choice> choices) {
        public Request {
            choices = Set.copyOf(choices);
        }

        /** In the usual memory. */
        public static Request of(Path model, Path output, SampleSource samples) {
            return new Request(model, output, samples, CalibrationOptions.DEFAULT_MEMORY, Set.of());
        }

        /** The same in so much memory. */
        public Request withMemory(long bytes) {
            return new Request(model, output, samples, bytes, choices);
        }

        /** The same with one more choice. */
        public Request with(Choice choice) {
            Set<Choice> more = EnumSet.of(choice);
            more.addAll(choices);
            return new Request(model, output, samples, memoryBytes, more);
        }

        private boolean has(Choice choice) {
            return choices.contains(choice);
        }
    }

    /** What a user can choose. */
    public enum Choice {
        /**
         * The second moments of the Linears' inputs are written, too, into {@link #momentsOf}: with them {@link Quantize} rounds by GPTQ,
         * searches scales and predicts errors without the samples. They are taken in the same run, in the same memory as the weights.
         */
        SECOND_MOMENTS
    }

    /** The file of second moments that belongs to a file of statistics: next to it, with {@code .moments} after its name. */
    public static Path momentsOf(Path statistics) {
        return new MomentsFile(statistics).path();
    }

    /**
     * What was measured.
     *
     * @param output the file of statistics
     * @param tensors how many were measured
     * @param nonFinite tensors in which a NaN or an infinity was seen
     * @param experts how many tokens the experts of each layer saw; empty for a model without
     * @param resumed whether an earlier job was continued
     * @param moments the file of second moments; null where none was asked for
     * @param momentsBytes its size; 0 without
     */
    public record Result(
            String output,
            long samples,
            int tensors,
            List<String> nonFinite,
            List<ExpertCoverage> experts,
            boolean resumed,
            @Nullable String moments,
            long momentsBytes,
            double seconds) {}

    /**
     * What a job would measure.
     *
     * @param data what the samples are called
     * @param momentsBytes of the file of second moments, about; 0 where none was asked for
     */
    public record Planned(int tensors, long samples, String data, long momentsBytes) {}

    /**
     * Measures a model.
     *
     * @throws dev.octet.formats.error.OctetException when model and samples do not fit together, or the output is finished already
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        Stopwatch watch = new Stopwatch();
        Path output = request.output();
        job.requireFileName(output);
        MomentsFile moments = new MomentsFile(output);
        boolean wantsMoments = request.has(Choice.SECOND_MOMENTS);
        boolean resumed = resumes(output, wantsMoments && !Files.exists(moments.path()), job);
        if (wantsMoments && !resumed) {
            job.refuseExisting(moments.path());
        }
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = samples(request, source, converter, job)) {
            Optional<NewStatistics> replacing = Files.exists(output) && job.overwrite()
                    ? Optional.of(NewStatistics.inPlaceOf(output, source.digest(), samples))
                    : Optional.empty();
            boolean goesOn = replacing.map(NewStatistics::begun).orElse(resumed);
            Path written = replacing.map(NewStatistics::checkpoint).orElse(output);
            CalibrationOptions options = job.calibration()
                    .withMemory(request.memoryBytes())
                    .withCheckpoint(written, CHECKPOINT_SAMPLES)
                    .withSecondMoments(wantsMoments ? SecondMomentsFile.besides(written) : null)
                    .withProgress(new Pieces(job.listener()));
            Statistics statistics = source.huggingFace().isPresent()
                    ? converter.calibrateModules(samples, source.digest(), options)
                    : converter.calibrate(plan(converter, request.model()), samples, source.digest(), options);
            if (replacing.isPresent()) {
                replacing.get().publish();
            }
            return result(output, statistics, goesOn, wantsMoments ? moments : null, watch);
        }
    }

    /** Says what {@link #run} would measure; reads the model and opens the samples. */
    public static Planned plan(Request request, Job job) throws IOException {
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = samples(request, source, converter, job)) {
            Plan plan = plan(converter, request.model());
            int tensors = source.huggingFace().isPresent()
                    ? (int) ModuleTaps.of(converter.canonical()).stream()
                            .map(Tap::module)
                            .distinct()
                            .count()
                    : converter.taps().size();
            long moments = request.has(Choice.SECOND_MOMENTS) ? converter.momentBytes(plan) : 0;
            return new Planned(tensors, samples.count(), samples.name(), moments);
        }
    }

    /**
     * The statistics of some consecutive samples, without a file: for clusters, which share the samples out and merge. Counts and ranges of
     * the merged are those of all samples in one job with as many threads; sums of squares are rounded in another order.
     *
     * @param request its output is not written; no second moments
     * @param from number of the first, counted from 0
     * @throws dev.octet.formats.error.OctetException when model and samples do not fit together
     * @throws IOException when reading fails
     */
    public static Statistics part(Request request, int from, int count, Job job) throws IOException {
        if (request.has(Choice.SECOND_MOMENTS)) {
            throw job.invalid(
                    "second moments are too large to be taken in parts and merged in memory",
                    "take them with one process: octet calibrate --second-moments");
        }
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = slice(samples(request, source, converter, job), from, count)) {
            CalibrationOptions options =
                    job.calibration().withMemory(request.memoryBytes()).withProgress(new Pieces(job.listener()));
            return source.huggingFace().isPresent()
                    ? converter.calibrateModules(samples, source.digest(), options)
                    : converter.calibrate(plan(converter, request.model()), samples, source.digest(), options);
        }
    }

    private static Dataset slice(Dataset whole, int from, int count) throws IOException {
        try {
            return whole.slice(from, count); // closes the whole with it
        } catch (RuntimeException e) {
            whole.close();
            throw e;
        }
    }

    /**
     * The samples of a request, as statistics of all of them name them.
     *
     * @throws dev.octet.formats.error.OctetException when model and samples do not fit together
     * @throws IOException when reading fails
     */
    public static DataPart data(Request request, Job job) throws IOException {
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = samples(request, source, converter, job)) {
            return new DataPart(samples.digest(), samples.name(), samples.count(), samples.count());
        }
    }

    /** Merges statistics of the same model over different samples, without second moments. */
    public static Result merge(List<Path> parts, Path output, Job job) throws IOException {
        return merge(parts, output, Set.of(), job);
    }

    /**
     * Merges statistics of the same model over different samples.
     *
     * @param parts two files or more
     * @param choices {@link Choice#SECOND_MOMENTS} merges the second moments next to the parts, too, which all of them must have
     * @throws dev.octet.formats.error.OctetException when they are not of one model
     * @throws IOException when reading or writing fails
     */
    public static Result merge(List<Path> parts, Path output, Set<Choice> choices, Job job) throws IOException {
        Stopwatch watch = new Stopwatch();
        boolean wantsMoments = choices.contains(Choice.SECOND_MOMENTS);
        MomentsFile target = new MomentsFile(output);
        job.requireFileName(output);
        job.refuseExisting(output);
        if (wantsMoments) {
            job.refuseExisting(target.path());
        }
        Map<Path, Statistics> read = new LinkedHashMap<>();
        Statistics merged = StatisticsFile.read(parts.getFirst());
        read.put(parts.getFirst(), merged);
        for (Path part : parts.subList(1, parts.size())) {
            Statistics more = StatisticsFile.read(part);
            merged = merged.merge(more);
            read.put(part, more);
        }
        if (!job.dryRun()) {
            if (wantsMoments) {
                target.writeMerged(read, merged);
            }
            StatisticsFile.write(merged, output);
        }
        return result(output, merged, false, wantsMoments && !job.dryRun() ? target : null, watch);
    }

    private static Dataset samples(Request request, ModelSource source, Converter converter, Job job)
            throws IOException {
        Dataset samples = request.samples().open(request.model(), InputSpec.of(converter.source()), job);
        if (source.huggingFace().isPresent()) {
            try {
                source.huggingFace().get().tokenLimits().check(samples);
            } catch (IOException | RuntimeException e) {
                samples.close();
                throw e;
            }
        }
        return samples;
    }

    private static Plan plan(Converter converter, Path model) {
        Plan plan = converter.plan(Recipes.GRAPH_FP8, List.of());
        if (plan.taps().isEmpty()) {
            QuantizedAlready.refusal(converter, model, "calibrate").ifPresent(e -> {
                throw e;
            });
        }
        plan.requireTaps();
        return plan;
    }

    /** Says which piece runs, and how far it is. */
    private static final class Pieces implements ProgressListener {
        private final TaskListener listener;
        private String task = "calibrating";

        Pieces(TaskListener listener) {
            this.listener = listener;
        }

        @Override
        public void samples(int done, int total) {
            listener.progress(task, done, total, "samples");
        }

        @Override
        public void piece(int piece, int pieces) {
            task = "calibrating, piece " + piece + " of " + pieces;
        }
    }

    /**
     * Whether there is an unfinished file to continue; a finished one is kept unless it may be overwritten.
     *
     * @param lacksMoments a finished file is continued, too: second moments are still to be taken
     */
    private static boolean resumes(Path output, boolean lacksMoments, Job job) throws IOException {
        if (job.overwrite() || !Files.exists(output)) {
            return false;
        }
        if (StatisticsFile.read(output).complete() && !lacksMoments) {
            job.refuseExisting(output);
        }
        return true;
    }

    private static Result result(
            Path output, Statistics statistics, boolean resumed, @Nullable MomentsFile moments, Stopwatch watch)
            throws IOException {
        List<String> nonFinite = new ArrayList<>();
        statistics.tensors().forEach((name, t) -> {
            if (t.nans() + t.infinities() > 0) {
                nonFinite.add(name);
            }
        });
        return new Result(
                output.toString(),
                statistics.samplesDone(),
                statistics.tensors().size(),
                nonFinite,
                ExpertCoverage.of(statistics),
                resumed,
                moments == null ? null : moments.path().toString(),
                moments == null ? 0 : Files.size(moments.path()),
                watch.seconds());
    }
}
