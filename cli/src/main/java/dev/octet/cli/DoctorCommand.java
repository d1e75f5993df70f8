package dev.octet.cli;

import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.pipeline.Doctor;
import dev.octet.pipeline.DoctorReport;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Provenance;
import dev.octet.pipeline.doctor.Cure;
import dev.octet.pipeline.doctor.TaskScores;
import dev.octet.pipeline.doctor.Triage;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.optimizer.WeightAveraging;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet doctor RUN}: what ails a run in FP8, and the smallest cure. */
final class DoctorCommand implements Command {
    private static final Pattern BUDGET = Pattern.compile("(\\d{1,6})([smh]?)");

    private static final PathOption BASELINE = PathOption.read(
            "baseline",
            "RUN2",
            "a run of the same data and configuration in BF16 or FP32 (default: replays a stretch of the run in its"
                    + " base type)");
    private static final PathOption TASKS = PathOption.read(
            "tasks", "FILE", "scores of downstream tasks as JSON: {\"arc\": {\"baseline\": 0.61, \"run\": 0.40}}");
    private static final PathOption EXPORTED =
            PathOption.read("exported", "MODEL", "what was exported from the run, to be held against it");
    private static final PathOption CONFIG =
            PathOption.read("config", "FILE", "of a MODEL without a run: what training would do, as YAML");
    private static final PathOption DATA =
            PathOption.read("data", "FILE", "of a MODEL: the samples (default: data.train of the configuration)");
    private static final PathOption MODEL = PathOption.read(
            "model", "MODEL", "of a RUN: where its model lies now (default: where it lay when the run started)");
    private static final Option STEP = Flags.value(
            "step", "N", "start replays from the checkpoint of step N (default: the one before the trouble)");
    private static final Option BUDGET_OPTION = Flags.value(
            "budget",
            "N|Nm",
            "at most N replays, or N minutes (Ns, Nh); then says what is known (default: as many as it takes)");
    private static final PathOption OUTPUT = PathOption.outputIn(
            "FOLDER",
            "where the cure and finished replays are kept (default: doctor in RUN; of a MODEL, nowhere)",
            Doctor.WRITTEN);
    private static final PathOption REPORT =
            PathOption.written("report", "PAGE.html", "write the diagnosis as a page too (default: none)");

    @Override
    public String name() {
        return "doctor";
    }

    @Override
    public String summary() {
        return "Find the layer and product that FP8 breaks in a training run, and the smallest cure; exit 1 when"
                + " something was found.";
    }

    @Override
    public List<String> operands() {
        return List.of(RUN);
    }

    @Override
    public List<Option> options() {
        return List.of(
                BASELINE,
                TASKS,
                EXPORTED,
                ExportCommand.AVERAGE,
                CONFIG,
                DATA,
                MODEL,
                STEP,
                BUDGET_OPTION,
                OUTPUT,
                REPORT,
                TrainCommand.DEVICE,
                Flags.THREADS,
                Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet doctor runs/fp8 --baseline runs/bf16 --report doctor.html",
                "octet doctor runs/fp8 --budget 20 --json",
                "octet doctor runs/fp8 --tasks scores.json --exported model-fp8",
                "octet doctor Llama-3.2-1B --config train.yaml --data texts.jsonl");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Doctor.Request request = request(arguments);
        arguments.requireInputs();
        Optional<Path> report = arguments.outputFile(REPORT);
        try (Progress progress = arguments.progress(screen)) {
            Job job = arguments.job(progress);
            Doctor.Result result = Doctor.run(request, job);
            progress.end();
            if (report.isPresent()) {
                List<ReportData.Timing> timings = List.of(new ReportData.Timing("examine", result.seconds()));
                RunFacts facts = new Provenance(job).facts(Provenance.Ran.OCTET, List.of(), timings);
                DoctorReport.write(result, facts, report.get());
            }
            screen.answer(arguments, result, () -> page(result));
            screen.report(arguments, report);
            return result.healthy() ? ExitCode.OK : ExitCode.CHECK_FAILED;
        }
    }

    private static Doctor.Request request(Arguments arguments) {
        Path operand = arguments.operand(0);
        boolean isRun = !arguments.has(CONFIG);
        if (isRun) {
            arguments.refuse(List.of(DATA), "is for a MODEL with --config", "leave it out: a run knows its data");
        } else {
            arguments.refuse(
                    List.of(BASELINE, TASKS, EXPORTED, ExportCommand.AVERAGE, MODEL, STEP),
                    "is for a RUN",
                    "leave it out, or leave out --config");
        }
        Doctor.Subject subject = isRun
                ? new Doctor.Subject.Run(
                        operand, arguments.path(MODEL), arguments.integer(STEP, 0, 1, Integer.MAX_VALUE))
                : new Doctor.Subject.Untrained(
                        operand,
                        arguments.requiredPath(CONFIG),
                        arguments.path(DATA).stream()
                                .map(d -> "data.train=" + d.toAbsolutePath())
                                .toList());
        Doctor.Request request =
                Doctor.Request.of(subject).withBudget(budget(arguments)).withDevice(TrainCommand.device(arguments));
        Optional<Path> output = arguments.path(OUTPUT);
        if (output.filter(Files::isRegularFile).isPresent()) {
            throw arguments.usage("'" + output.get() + "' is a file", "give --output the name of a folder");
        }
        if (output.isPresent()) {
            request = request.withOutput(output.get());
        } else if (isRun && Files.isDirectory(operand)) {
            request = request.withOutput(operand.resolve(RunFolder.DOCTOR));
        }
        if (arguments.has(BASELINE)) {
            request = request.withBaseline(arguments.requiredPath(BASELINE));
        }
        if (arguments.has(TASKS)) {
            request = request.withTasks(arguments.requiredPath(TASKS));
        }
        if (!arguments.has(EXPORTED)) {
            arguments.refuse(
                    List.of(ExportCommand.AVERAGE), "says what was exported", "add --exported, or leave it out");
            return request;
        }
        request = request.withExported(arguments.requiredPath(EXPORTED));
        Optional<WeightAveraging.Kind> average = ExportCommand.average(arguments);
        return average.isPresent() ? request.withAverage(average.get()) : request;
    }

    private static Doctor.Budget budget(Arguments arguments) {
        Optional<String> text = arguments.text(BUDGET_OPTION);
        if (text.isEmpty()) {
            return Doctor.Budget.UNLIMITED;
        }
        Matcher budget = BUDGET.matcher(text.get());
        if (!budget.matches()) {
            throw arguments.usage(
                    "--budget needs a number of replays or a time, got '" + text.get() + "'", "for example 20, or 10m");
        }
        int number = Integer.parseInt(budget.group(1));
        return switch (budget.group(2)) {
            case "s" -> Doctor.Budget.ofTime(Duration.ofSeconds(number));
            case "m" -> Doctor.Budget.ofTime(Duration.ofMinutes(number));
            case "h" -> Doctor.Budget.ofTime(Duration.ofHours(number));
            default -> Doctor.Budget.ofReplays(number);
        };
    }

    private static String page(Doctor.Result result) {
        Table head = new Table()
                .row("examined", result.subject())
                .row("found", result.symptom().text());
        Doctor.Replays replays = result.replays();
        if (replays != null) {
            head.row(
                    "replayed",
                    "steps " + replays.firstStep() + " to " + replays.lastStep() + ", " + replays.layers()
                            + " Linears in FP8");
        }
        head.row(
                "time",
                Quantity.seconds(result.seconds()) + ", " + result.replaysRun()
                        + (result.replaysRun() == 1 ? " replay" : " replays"));
        StringBuilder page = new StringBuilder(head.text(0))
                .append('\n')
                .append(result.verdict())
                .append(".\n");
        appendCurves(page, result);
        appendReplays(page, replays);
        appendExport(page, result);
        appendCure(page, result);
        if (!result.advice().isEmpty()) {
            page.append('\n');
            result.advice()
                    .forEach(
                            a -> page.append("advice: ").append(Printable.of(a)).append('\n'));
        }
        return page.toString();
    }

    private static void appendCurves(StringBuilder page, Doctor.Result result) {
        Triage triage = result.triage();
        if (triage == null) {
            return;
        }
        Table table = new Table()
                .row(
                        "compared",
                        triage.steps() + " steps with " + result.curves().get(1).name())
                .row("gap at the end", percent(triage.gap()) + ", noise explains " + percent(triage.threshold()));
        triage.spikes()
                .forEach(s -> table.row(
                        "spike",
                        "steps " + s.first() + " to " + s.last() + ", loss " + number(s.peak()) + " over "
                                + number(s.before()) + (s.recovers() ? ", recovers" : ", does not recover")));
        result.badFits()
                .forEach(f -> table.row(
                        "bad fit",
                        f.tensor() + " at step " + f.step() + ": " + percent(f.clipped()) + " clipped, "
                                + percent(f.underflowed()) + " underflowed"));
        Doctor.Restore restore = result.restore();
        if (restore != null) {
            table.row(
                    "restored",
                    "step " + restore.fromStep() + " continued for " + restore.steps() + " steps without FP8: gap "
                            + percent(restore.gapBefore()) + " before, " + percent(restore.gapAfter()) + " after: "
                            + (restore.returns() ? "returns" : "does not return"));
        }
        page.append('\n').append(table.text(0));
    }

    private static void appendReplays(StringBuilder page, Doctor.@Nullable Replays replays) {
        if (replays == null) {
            return;
        }
        Table table = new Table().heading("replay", "distance", "cosine");
        replays.trials()
                .forEach(t -> table.row(
                        t.what() + (t.reused() ? " (kept)" : ""),
                        Table.cell(number(t.excess()) + "x", t.sick() ? Tone.BAD : Tone.GOOD),
                        String.format(Locale.ROOT, "%.4f", t.cosine())));
        page.append('\n').append(table.text(0));
        page.append("distance: from the reference, over what noise explains; above 1x is sick\n");
    }

    private static void appendExport(StringBuilder page, Doctor.Result result) {
        TaskScores tasks = result.tasks();
        if (tasks != null) {
            Table table = new Table().heading("task", "baseline", "run", "");
            tasks.tasks()
                    .forEach(t -> table.row(
                            t.name(),
                            number(t.baseline()),
                            number(t.run()),
                            t.bad() ? Table.cell("worse", Tone.BAD) : ""));
            page.append('\n').append(table.text(0));
        }
        Doctor.ExportFindings exported = result.exported();
        if (exported == null) {
            return;
        }
        Table table = new Table()
                .row("exported", exported.exported() + ", " + exported.layout())
                .row(
                        "worst weight",
                        exported.worstTensor() + ", " + number(exported.sqnrDbMin()) + " dB from the run's")
                .row(
                        "outputs",
                        number(exported.proof().worst()) + " of their norm from the trainer's, at most "
                                + number(exported.proof().gate()));
        exported.errors()
                .forEach(e -> table.row(
                        "rule " + e.rule(),
                        e.what() + ": " + e.places().getFirst()
                                + (e.count() > 1 ? " and " + (e.count() - 1) + " more" : "")));
        page.append('\n').append(table.text(0));
    }

    private static void appendCure(StringBuilder page, Doctor.Result result) {
        Cure cure = result.cure();
        Doctor.Replays replays = result.replays();
        if (cure == null || replays == null) {
            return;
        }
        page.append('\n').append(TextStyle.heading("cure"));
        if (replays.proof() != null) {
            page.append(", proved by a replay: ")
                    .append(number(replays.proof().excess()))
                    .append('x');
        }
        page.append('\n');
        if (result.written().isEmpty()) {
            page.append(cure.precision());
        } else {
            result.written()
                    .forEach(f -> page.append("  ").append(Printable.of(f)).append('\n'));
        }
    }

    private static String percent(double share) {
        return Double.isFinite(share) ? String.format(Locale.ROOT, "%.2g %%", 100 * share) : "not finite";
    }

    private static String number(double x) {
        return Double.isFinite(x) ? String.format(Locale.ROOT, "%.3g", x) : "not finite";
    }
}
