package dev.octet.cli;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ConversionReport;
import dev.octet.converter.Converter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.HtmlReport;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.file.SetAside;
import dev.octet.formats.file.Sha256;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;

/** {@code octet quickstart}: the whole chain on a real model and real text, with nothing to prepare. */
final class QuickstartCommand implements Command {
    private static final int CALIBRATION_SAMPLES = 256;
    private static final int HELD_OUT_SAMPLES = 400;
    private static final int CHECKPOINT_SAMPLES = 64;

    private static final PathOption OUTPUT = PathOption.outputIn(
            "FOLDER", "where to write model, statistics and report (default: octet-quickstart)", Place.ENTRIES);

    /** What {@code --json} prints. */
    record Answer(
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
            Distilled distilled,
            List<ReportData.Timing> timings,
            double seconds) {}

    /** The model after it learned from the original, on the same held-out texts. */
    record Distilled(String model, String run, double cosineMean, double cosineMin, double spearman, double sqnrDb) {}

    /** Steps with their times, in order. */
    private static final class Clock {
        private final long start = System.nanoTime();
        private final List<ReportData.Timing> timings = new ArrayList<>();
        private long last = start;

        void step(String name) {
            long now = System.nanoTime();
            timings.add(new ReportData.Timing(name, (now - last) / 1e9));
            last = now;
        }

        double seconds() {
            return (last - start) / 1e9;
        }
    }

    /** Where everything goes. */
    private record Place(Path folder, Path model, Path statistics, Path report) {
        private static final String MODEL = "all-minilm-l6-v2.fp8.onnx";
        private static final String STATISTICS = "all-minilm-l6-v2.stats";
        private static final String REPORT = "report.html";

        /** What is written in the folder. */
        static final List<String> ENTRIES = Stream.concat(
                        Stream.of(MODEL, STATISTICS, REPORT), QuickstartDistillation.ENTRIES.stream())
                .toList();

        static Place in(Path folder) {
            return new Place(folder, folder.resolve(MODEL), folder.resolve(STATISTICS), folder.resolve(REPORT));
        }
    }

    @Override
    public String name() {
        return "quickstart";
    }

    @Override
    public String summary() {
        return "Do the whole chain on all-MiniLM-L6-v2: fetch, calibrate, rewrite to FP8, compare, report, train,"
                + " export.";
    }

    @Override
    public List<String> operands() {
        return List.of();
    }

    @Override
    public List<Option> options() {
        return List.of(OUTPUT, Flags.THREADS, Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of("octet quickstart", "octet quickstart -o try --json");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        OnnxRuntime.require();
        Path home = Path.of(System.getProperty("octet.home", "."));
        Place place = Place.in(arguments.path(OUTPUT).orElse(Path.of("octet-quickstart")));
        for (String entry : Place.ENTRIES) {
            if (!entry.equals(Place.STATISTICS)) { // of a run that did not end: it goes on
                arguments.refuseExisting(place.folder().resolve(entry));
            }
        }
        Clock clock = new Clock();
        try (Progress progress = arguments.progress(screen)) {
            QuickstartFiles files =
                    QuickstartFiles.in(Files.createDirectories(home.resolve(".octet/quickstart")), progress);
            clock.step("fetch");
            Files.createDirectories(place.folder());
            Path glosses = home.resolve("testdata/wordnet/glosses.jsonl");
            RunPaths.none()
                    .adding("--output", place.folder(), Place.ENTRIES)
                    .reading("the quickstart's model", files.model())
                    .reading("its tokenizer", files.tokenizer())
                    .reading("its texts", glosses)
                    .requireApart();
            QuickstartDistillation distillation = new QuickstartDistillation(place.folder(), files);
            try (SetAside earlier =
                    SetAside.of(place.folder(), arguments.has(Flags.FORCE) ? Place.ENTRIES : List.of())) {
                Converted converted =
                        convert(files, glosses, place, arguments.threads(), progress, clock, distillation);
                progress.end();
                ExitCode code = distillation.run(arguments, screen);
                clock.step("distil and export");
                if (code != ExitCode.OK) {
                    return code;
                }
                Answer answer = converted.answer(distilled(distillation, files, arguments.threads(), progress), clock);
                progress.end();
                screen.out().print(arguments.has(Flags.JSON) ? Json.page(answer) + "\n" : page(answer, files));
                earlier.replaced();
            }
        }
        return ExitCode.OK;
    }

    /** The first half, done. */
    private record Converted(ReportData report, Plan plan, Place place) {
        Answer answer(Distilled distilled, Clock clock) {
            clock.step("evaluate again");
            return QuickstartCommand.answer(report, plan, place, distilled, clock);
        }
    }

    private static Distilled distilled(
            QuickstartDistillation distillation, QuickstartFiles files, int threads, Progress progress)
            throws IOException {
        try (ModelFile file = ModelFile.open(files.model());
                Dataset heldOut = TextDataset.open(
                        distillation.heldOut(),
                        files.tokenizer(),
                        InputSpec.of(file.model().graph().orElseThrow()),
                        TextOptions.DEFAULT)) {
            Measures measures = new Measures(Evaluation.compare(
                    files.model(),
                    distillation.model(),
                    heldOut,
                    EvaluationOptions.defaults()
                            .withThreads(threads)
                            .withProgress((done, total) -> progress.update("evaluating", done, total, "texts"))));
            return new Distilled(
                    distillation.model().toString(),
                    distillation.run().toString(),
                    measures.value("cosine"),
                    measures.value("cosine-min"),
                    measures.value("spearman"),
                    measures.value("sqnr"));
        }
    }

    private static Converted convert(
            QuickstartFiles files,
            Path glosses,
            Place place,
            int threads,
            Progress progress,
            Clock clock,
            QuickstartDistillation distillation)
            throws IOException {
        try (ModelFile file = ModelFile.open(files.model());
                Converter converter = Converter.of(file.model());
                Dataset texts = TextDataset.open(
                        glosses, files.tokenizer(), InputSpec.of(converter.source()), TextOptions.DEFAULT)) {
            Plan plan = converter.plan(Recipes.GRAPH_FP8, List.of());
            clock.step("import and plan");
            Statistics statistics = converter.calibrate(
                    plan,
                    texts.slice(0, CALIBRATION_SAMPLES),
                    Sha256.of(files.model()),
                    CalibrationOptions.defaults()
                            .withThreads(threads)
                            .withCheckpoint(place.statistics(), CHECKPOINT_SAMPLES)
                            .withProgress((done, total) -> progress.update("calibrating", done, total, "texts")));
            clock.step("calibrate on " + CALIBRATION_SAMPLES + " texts");
            ConversionOptions options = ConversionOptions.defaults()
                    .withThreads(threads)
                    .withMoments(converter.moments(
                            plan,
                            texts.slice(0, CALIBRATION_SAMPLES),
                            CalibrationOptions.defaults()
                                    .withThreads(threads)
                                    .withProgress((done, total) ->
                                            progress.update("measuring for rounding", done, total, "texts"))));
            clock.step("second moments of " + CALIBRATION_SAMPLES + " texts");
            Conversion converted = converter.convert(plan, statistics, options);
            clock.step("rewrite to FP8");
            EvaluationOptions evaluating = EvaluationOptions.defaults().withThreads(threads);
            Conversion conversion = converter.measure(
                    converted,
                    texts.slice(0, CALIBRATION_SAMPLES),
                    evaluating.withProgress(
                            (done, total) -> progress.update("comparing layers", done, total, "texts")));
            clock.step("compare layers");
            conversion.save(place.model());
            clock.step("write");
            Dataset heldOut = texts.slice(CALIBRATION_SAMPLES, HELD_OUT_SAMPLES);
            ModelComparison comparison = Evaluation.compare(
                    files.model(),
                    place.model(),
                    heldOut,
                    evaluating.withProgress((done, total) -> progress.update("evaluating", done, total, "texts")));
            clock.step("evaluate on " + HELD_OUT_SAMPLES + " held-out texts");
            ReportData report = ConversionReport.of(
                            conversion,
                            "all-MiniLM-L6-v2",
                            options.calibrator().text(),
                            Files.size(files.model()),
                            Files.size(place.model()),
                            statistics,
                            clock.timings)
                    .withQuality(quality(comparison));
            HtmlReport.write(report, place.report());
            distillation.prepare(
                    converter, conversion, glosses, CALIBRATION_SAMPLES, CALIBRATION_SAMPLES + HELD_OUT_SAMPLES);
            return new Converted(report, conversion.plan(), place);
        }
    }

    private static ReportData.Quality quality(ModelComparison comparison) {
        Measures measures = new Measures(comparison);
        return new ReportData.Quality(
                "glosses.jsonl, held out",
                comparison.samples(),
                measures.value("cosine"),
                measures.value("cosine-min"),
                measures.value("sqnr"),
                measures.value("spearman"));
    }

    private static Answer answer(ReportData report, Plan plan, Place place, Distilled distilled, Clock clock) {
        ReportData.Summary summary = report.summary();
        ReportData.Quality quality = summary.quality();
        if (quality == null) {
            throw new IllegalStateException("the report was made without its quality");
        }
        return new Answer(
                place.model().toString(),
                place.statistics().toString(),
                place.report().toString(),
                LayerCount.of(plan),
                LayerCount.kept(plan),
                summary.originalBytes(),
                summary.convertedBytes(),
                quality.samples(),
                quality.cosineMean(),
                quality.cosineMin(),
                quality.spearman(),
                quality.sqnrDb(),
                distilled,
                clock.timings,
                clock.seconds());
    }

    private static String page(Answer answer, QuickstartFiles files) {
        Table table = new Table()
                .row(
                        "layers",
                        answer.layers().stream().map(LayerCount::toString).collect(Collectors.joining(", ")));
        answer.kept().forEach(k -> table.row("kept", k.kind() + " " + k.node() + ": " + k.reason()));
        table.row("size", Table.bytes(answer.originalBytes()) + " -> " + Table.bytes(answer.convertedBytes()))
                .row(
                        "cosine",
                        String.format(
                                Locale.ROOT,
                                "%.5f mean, %.5f smallest, on %d held-out texts",
                                answer.cosineMean(),
                                answer.cosineMin(),
                                answer.samples()))
                .row(
                        "  distilled",
                        String.format(
                                Locale.ROOT,
                                "%.5f mean, %.5f smallest, after training the FP8 model to answer as the original",
                                answer.distilled().cosineMean(),
                                answer.distilled().cosineMin()))
                .row(
                        "Spearman",
                        String.format(
                                Locale.ROOT,
                                "%.5f of the pairwise similarities, distilled %.5f",
                                answer.spearman(),
                                answer.distilled().spearman()))
                .row("time", Table.seconds(answer.seconds()))
                .row("model", answer.model())
                .row("  distilled", answer.distilled().model())
                .row("report", answer.report());
        return "all-MiniLM-L6-v2 in FP8\n" + table.text(2) + "\nnext\n" + next(files, answer);
    }

    /** What to try next, as lines to copy. */
    private static String next(QuickstartFiles files, Answer answer) {
        return "  open " + answer.report() + " in a browser\n"
                + "  ./octet inspect " + answer.model() + "\n"
                + "  ./octet export " + answer.distilled().run() + " -o checkpoint --target compressed-tensors\n"
                + "  ./octet quantize " + files.model() + " -o weights-only.onnx --recipe fp8-weight-only\n"
                + "  ./octet quantize YOUR.onnx -o fp8.onnx --calibration TEXTS.jsonl --tokenizer tokenizer.json"
                + " --report report.html\n";
    }
}
