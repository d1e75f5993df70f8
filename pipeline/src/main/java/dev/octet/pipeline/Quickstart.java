package dev.octet.pipeline;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ConversionReport;
import dev.octet.converter.Converter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.HtmlReport;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.file.SetAside;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.quickstart.Distillation;
import dev.octet.pipeline.quickstart.QuickstartFiles;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * {@code octet quickstart}: the whole chain on a real model and real text, with nothing to prepare: fetch, calibrate, rewrite to FP8, compare,
 * report; round the weights to four bits, train the model to make up for it, export.
 */
public final class Quickstart {
    private static final int CALIBRATION_SAMPLES = 256;
    private static final int HELD_OUT_SAMPLES = 400;
    private static final String HELD_OUT_NAME = "glosses.jsonl, held out";
    private static final int CHECKPOINT_SAMPLES = 64;
    private static final String MODEL = "all-minilm-l6-v2.fp8.onnx";
    private static final String STATISTICS = "all-minilm-l6-v2.stats";
    private static final String REPORT = "report.html";

    /** What is written in the folder. */
    public static final List<String> ENTRIES = Stream.concat(
                    Stream.of(MODEL, STATISTICS, REPORT), Distillation.ENTRIES.stream())
            .toList();

    private Quickstart() {}

    /**
     * Where everything lies.
     *
     * @param folder to write to
     * @param cache of the model that is fetched
     * @param glosses texts, one line of JSON for each
     */
    public record Request(Path folder, Path cache, Path glosses) {
        /** With cache and texts where a checkout of Octet has them. */
        public static Request of(Path folder, Path checkout) {
            return new Request(
                    folder, checkout.resolve(".octet/quickstart"), checkout.resolve("testdata/wordnet/glosses.jsonl"));
        }

        private Path model() {
            return folder.resolve(MODEL);
        }

        private Path statistics() {
            return folder.resolve(STATISTICS);
        }

        private Path report() {
            return folder.resolve(REPORT);
        }
    }

    /** Hears of the two parts that say more than how far they are. */
    public interface Watcher extends Train.Watcher {
        /** The training has ended, well or not. */
        void trained(RunEnd end);

        /** The trained model was exported, and proved or not. */
        void exported(Export.Result result);
    }

    /**
     * What came of it, in files and on held-out texts.
     *
     * @param fourBits the model with weights in NVFP4, rounded to nearest
     * @param trained the same after it learned from the original
     * @param run the folder of the training
     * @param timings the steps in order
     */
    public record Result(
            String model,
            String statistics,
            String report,
            List<LayerCount> layers,
            List<LayerCount.Kept> kept,
            long originalBytes,
            long convertedBytes,
            long samples,
            double cosineMean,
            double cosineMin,
            double spearman,
            double sqnrDb,
            Rounded fourBits,
            Rounded trained,
            String run,
            List<ReportData.Timing> timings,
            double seconds) {}

    /**
     * A model with four-bit weights, on the same held-out texts.
     *
     * @param bytes of its tensors
     */
    public record Rounded(
            String model, long bytes, double cosineMean, double cosineMin, double spearman, double sqnrDb) {}

    /**
     * Does the whole chain.
     *
     * @return empty when the training diverged or the exported model was not as the trainer's; the watcher knows more
     * @throws dev.octet.formats.error.OctetException when something is in the way, or a library is missing
     * @throws IOException when the model cannot be fetched, or reading or writing fails
     */
    public static Optional<Result> run(Request request, Watcher watcher, Job job) throws IOException {
        OnnxRuntime.require();
        for (String entry : ENTRIES) {
            if (!entry.equals(STATISTICS)) { // of a job that did not end: it continues
                job.refuseExisting(request.folder().resolve(entry));
            }
        }
        Stopwatch watch = new Stopwatch();
        QuickstartFiles files = QuickstartFiles.in(
                Files.createDirectories(request.cache()),
                seconds -> job.listener().progress("fetching the model (83 MB) through Maven", seconds, 0, "s"));
        watch.step("fetch");
        Files.createDirectories(request.folder());
        RunPaths.none()
                .adding("--output", request.folder(), ENTRIES)
                .reading("the quickstart's model", files.model())
                .reading("its tokenizer", files.tokenizer())
                .reading("its texts", request.glosses())
                .requireApart();
        Distillation distillation = new Distillation(request.folder(), files);
        try (SetAside earlier = SetAside.of(request.folder(), job.overwrite() ? ENTRIES : List.of())) {
            Converted converted = convert(request, distillation, watch, job);
            distillation.prepare(request.glosses(), CALIBRATION_SAMPLES, CALIBRATION_SAMPLES + HELD_OUT_SAMPLES);
            Job own = new Job(job.name(), job.commandLine(), job.threads(), false, false, job.listener());
            long bytes = round(distillation, own);
            watch.step("round to NVFP4");
            Rounded fourBits = evaluate(distillation, distillation.fourBits(), bytes, own);
            watch.step("evaluate NVFP4");
            boolean passed = distil(distillation, watcher, own);
            watch.step("train and export");
            if (!passed) {
                return Optional.empty();
            }
            Rounded trained = evaluate(distillation, distillation.model(), bytes, own);
            watch.step("evaluate the trained NVFP4");
            HtmlReport.write(
                    converted
                            .report()
                            .withTrained(
                                    trained(fourBits, trained, distillation.run()),
                                    facts(request, converted.statistics(), watch, job)),
                    request.report());
            Result result = result(request, converted, fourBits, trained, distillation.run(), watch);
            earlier.replaced();
            return Optional.of(result);
        }
    }

    /** The first half, done. */
    private record Converted(Plan plan, ReportData report, Statistics statistics, ReportData.Quality quality) {
        ReportData.Summary summary() {
            return report.summary();
        }
    }

    private static RunFacts facts(Request request, Statistics statistics, Stopwatch watch, Job job) throws IOException {
        List<RunFacts.Digest> digests = new ArrayList<>();
        digests.add(new RunFacts.Digest("the model", statistics.modelDigest()));
        statistics.data().forEach(d -> digests.add(new RunFacts.Digest("the data, " + d.name(), d.digest())));
        digests.add(new RunFacts.Digest("what was written, " + request.model(), Sha256.of(request.model())));
        return new Provenance(job).facts(Provenance.Ran.ONNX_RUNTIME, digests, watch.timings());
    }

    private static Converted convert(Request request, Distillation distillation, Stopwatch watch, Job job)
            throws IOException {
        QuickstartFiles files = distillation.files();
        try (ModelFile file = ModelFile.open(files.model());
                Converter converter = Converter.of(file.model());
                Dataset texts = texts(request.glosses(), files, InputSpec.of(converter.source()))) {
            Plan plan = converter.plan(Recipes.GRAPH_FP8, List.of());
            QuantizeSteps steps = new QuantizeSteps(converter, plan, job, "texts");
            Dataset calibrated = texts.slice(0, CALIBRATION_SAMPLES);
            watch.step("import and plan");
            Statistics statistics = steps.calibrate(
                    calibrated,
                    Sha256.of(files.model()),
                    job.calibration("calibrating", "texts").withCheckpoint(request.statistics(), CHECKPOINT_SAMPLES));
            watch.step("calibrate on " + CALIBRATION_SAMPLES + " texts");
            ConversionOptions options =
                    ConversionOptions.defaults().withThreads(job.threads()).withMoments(steps.moments(calibrated));
            watch.step("second moments of " + CALIBRATION_SAMPLES + " texts");
            Conversion converted = steps.convert(statistics, options);
            watch.step("rewrite to FP8");
            Conversion conversion = steps.measure(converted, calibrated);
            watch.step("compare layers");
            conversion.save(request.model());
            watch.step("write");
            ReportData.Quality quality = quality(Evaluation.compare(
                    files.model(),
                    request.model(),
                    texts.slice(CALIBRATION_SAMPLES, HELD_OUT_SAMPLES),
                    job.evaluation("evaluating", "texts")));
            watch.step("evaluate on " + HELD_OUT_SAMPLES + " held-out texts");
            ReportData report = ConversionReport.of(
                            conversion,
                            new ConversionReport.Files(
                                    "all-MiniLM-L6-v2",
                                    converter.canonical(),
                                    Files.size(files.model()),
                                    Files.size(request.model())),
                            "gptq (second moments of the samples)",
                            options.calibrator().text(),
                            statistics,
                            facts(request, statistics, watch, job))
                    .withQuality(quality);
            HtmlReport.write(report, request.report());
            return new Converted(conversion.plan(), report, statistics, quality);
        }
    }

    private static ReportData.Trained trained(Rounded rounded, Rounded trained, Path run) throws IOException {
        LossCurves curves = LossCurves.of(run);
        return new ReportData.Trained(
                trained.model(), quality(rounded), quality(trained), curves.loss(), curves.evaluated());
    }

    private static ReportData.Quality quality(Rounded model) {
        return new ReportData.Quality(
                HELD_OUT_NAME,
                HELD_OUT_SAMPLES,
                model.cosineMean(),
                model.cosineMin(),
                model.sqnrDb(),
                model.spearman());
    }

    private static Dataset texts(Path file, QuickstartFiles files, List<InputSpec> inputs) throws IOException {
        return TextDataset.open(file, files.tokenizer(), inputs, TextOptions.defaults());
    }

    private static ReportData.Quality quality(ModelComparison comparison) {
        Measures measures = new Measures(comparison);
        return new ReportData.Quality(
                HELD_OUT_NAME,
                comparison.samples(),
                measures.value("embedding-cosine"),
                measures.value("embedding-cosine-min"),
                measures.value("sqnr"),
                measures.value("spearman"));
    }

    /** Writes the original as a checkpoint, its weights in four bits, and these as F32; answers how many bytes the four bits take. */
    private static long round(Distillation d, Job job) throws IOException {
        Convert.run(new Convert.ToHuggingFace(d.files().model(), d.original(), Optional.empty()), job);
        long bytes = quantize(d.original(), d.fourBits(), job);
        Dequantize.run(Dequantize.Request.of(d.fourBits(), d.student()).withType(DType.F32), job);
        for (Path model : List.of(d.original(), d.fourBits(), d.student())) {
            d.addTokenizer(model);
        }
        return bytes;
    }

    private static long quantize(Path model, Path output, Job job) throws IOException {
        CheckpointOutcome outcome = Quantize.run(Quantize.CheckpointRequest.of(model, output, Recipes.NVFP4), job);
        return outcome.targetBytes();
    }

    /** Whether the student learned, and its export is as the trainer has it; then it has four bits again. */
    private static boolean distil(Distillation d, Watcher watcher, Job job) throws IOException {
        RunEnd end = Train.run(Train.Request.of(d.student(), d.config(), d.run()), watcher, job);
        watcher.trained(end);
        if (end.reason() != RunEnd.Reason.COMPLETED && end.reason() != RunEnd.Reason.INTERRUPTED) {
            return false;
        }
        Target huggingFace = Target.named("huggingface").orElseThrow();
        Export.Result exported = Export.run(
                Export.Request.of(d.run(), d.trained(), huggingFace).withProof(Prove.Options.defaults()), job);
        watcher.exported(exported);
        if (exported.passed()) {
            quantize(d.trained(), d.model(), job);
            d.addTokenizer(d.model());
        }
        return exported.passed();
    }

    private static Rounded evaluate(Distillation d, Path model, long bytes, Job job) throws IOException {
        Evaluate.Request request = Evaluate.Request.of(d.original(), model, SampleSource.of(d.heldOut()))
                .without(Evaluate.Part.LAYERS);
        Measures measures = new Measures(Evaluate.run(request, job).comparison());
        return new Rounded(
                model.toString(),
                bytes,
                measures.value("embedding-cosine"),
                measures.value("embedding-cosine-min"),
                measures.value("spearman"),
                measures.value("sqnr"));
    }

    private static Result result(
            Request request, Converted converted, Rounded fourBits, Rounded trained, Path run, Stopwatch watch) {
        return new Result(
                request.model().toString(),
                request.statistics().toString(),
                request.report().toString(),
                LayerCount.of(converted.plan()),
                LayerCount.kept(converted.plan()),
                converted.summary().originalBytes(),
                converted.summary().convertedBytes(),
                converted.quality().samples(),
                converted.quality().cosineMean(),
                converted.quality().cosineMin(),
                converted.quality().spearman(),
                converted.quality().sqnrDb(),
                fourBits,
                trained,
                run.toString(),
                watch.timings(),
                watch.seconds());
    }
}
