package dev.octet.cli;

import dev.octet.pipeline.Export;
import dev.octet.pipeline.LayerCount;
import dev.octet.pipeline.Quickstart;
import dev.octet.pipeline.Train;
import dev.octet.pipeline.quickstart.Distillation;
import dev.octet.pipeline.quickstart.QuickstartFiles;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;

/** {@code octet quickstart}: the whole chain on a real model and real text, with nothing to prepare. */
final class QuickstartCommand implements Command {
    private static final PathOption OUTPUT = PathOption.outputIn(
            "FOLDER", "where to write model, statistics and report (default: octet-quickstart)", Quickstart.ENTRIES);

    /** The two parts that print pages of their own: on standard error, which the quickstart's own answer is not on. */
    private static final class Pages implements Quickstart.Watcher, AutoCloseable {
        private final Progress progress;
        private final Screen aside;
        private final TrainSession training;

        Pages(Arguments arguments, Screen screen, Progress progress) {
            this.progress = progress;
            PrintStream pages = arguments.has(Flags.QUIET)
                    ? new PrintStream(OutputStream.nullOutputStream(), false, StandardCharsets.UTF_8)
                    : screen.err();
            this.aside = new Screen(pages, screen.err(), screen.errStyle(), screen.errStyle(), screen.debug());
            this.training = new TrainSession(setup -> TrainPage.within(setup, arguments, aside));
        }

        @Override
        public List<TrainingHook> hooks(Train.Setup setup) {
            progress.end();
            return training.hooks(setup);
        }

        @Override
        public void trained(RunEnd end) {
            ExitCode _ = training.end(end);
            training.close();
        }

        @Override
        public void exported(Export.Result result) {
            progress.end();
            aside.out().print(ExportCommand.page(result, "written"));
        }

        @Override
        public void close() {
            training.close();
        }
    }

    @Override
    public String name() {
        return "quickstart";
    }

    @Override
    public String summary() {
        return "Do the whole chain on all-MiniLM-L6-v2: fetch, calibrate, rewrite to FP8, compare, report; then"
                + " four-bit weights, which training makes better.";
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
        Path home = Path.of(System.getProperty("octet.home", "."));
        Quickstart.Request request =
                Quickstart.Request.of(arguments.path(OUTPUT).orElse(Path.of("octet-quickstart")), home);
        try (Progress progress = arguments.progress(screen);
                Pages pages = new Pages(arguments, screen, progress)) {
            Optional<Quickstart.Result> result = Quickstart.run(request, pages, arguments.job(progress));
            progress.end();
            if (result.isEmpty()) {
                return ExitCode.CHECK_FAILED;
            }
            screen.answer(arguments, result.get(), () -> page(result.get(), QuickstartFiles.named(request.cache())));
        }
        return ExitCode.OK;
    }

    private static String page(Quickstart.Result answer, QuickstartFiles source) {
        Table table = new Table()
                .row(
                        "layers",
                        answer.layers().stream().map(LayerCount::toString).collect(Collectors.joining(", ")));
        answer.kept().forEach(k -> table.row("kept", k.kind() + " " + k.node() + ": " + k.reason()));
        table.row("size", Quantity.bytes(answer.originalBytes()) + " -> " + Quantity.bytes(answer.convertedBytes()))
                .row(
                        "cosine",
                        String.format(
                                Locale.ROOT,
                                "%.5f mean, %.5f smallest, on %d held-out texts",
                                answer.cosineMean(),
                                answer.cosineMin(),
                                answer.samples()))
                .row("Spearman", String.format(Locale.ROOT, "%.5f of the pairwise similarities", answer.spearman()));
        Table fourBits = new Table()
                .row("", "cosine", "smallest", "Spearman", "size")
                .row(rounded("rounded", answer.fourBits()))
                .row(rounded("trained", answer.trained()));
        Table files = new Table()
                .row("time", Quantity.seconds(answer.seconds()))
                .row("model", answer.model())
                .row("  NVFP4", answer.trained().model())
                .row("report", answer.report());
        return "all-MiniLM-L6-v2 in FP8\n" + table.text(2)
                + "\nwith weights in NVFP4 (four bits), and after " + Distillation.STEPS
                + " steps of training norms and biases\n" + fourBits.text(2)
                + "\n" + files.text(2) + "\nnext\n" + next(source, answer);
    }

    private static Object[] rounded(String how, Quickstart.Rounded model) {
        return new Object[] {
            how,
            String.format(Locale.ROOT, "%.5f", model.cosineMean()),
            String.format(Locale.ROOT, "%.5f", model.cosineMin()),
            String.format(Locale.ROOT, "%.5f", model.spearman()),
            Quantity.bytes(model.bytes())
        };
    }

    /** What to try next, as lines to copy. */
    private static String next(QuickstartFiles files, Quickstart.Result answer) {
        return "  open " + answer.report() + " in a browser\n"
                + "  ./octet inspect " + answer.model() + "\n"
                + "  ./octet diff " + answer.fourBits().model() + " "
                + answer.trained().model() + "\n"
                + "  ./octet export " + answer.run() + " -o trained.onnx --target onnxruntime\n"
                + "  ./octet quantize " + files.model() + " -o weights-only.onnx --recipe fp8-weight-only\n"
                + "  ./octet quantize YOUR.onnx -o fp8.onnx --calibration TEXTS.jsonl --tokenizer tokenizer.json"
                + " --report report.html\n";
    }
}
