package dev.octet.cli;

import dev.octet.pipeline.Report;
import dev.octet.pipeline.TaskListener;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet report RUN...}: training runs as one HTML page. */
final class ReportCommand implements Command {
    private static final int EVERY = 10;

    private static final PathOption PAGE = PathOption.output(
            "PAGE.html",
            "the page (default: " + Report.PAGE
                    + " in the run's folder; of several runs in the folder that the first lies" + " in)");
    private static final Option FOLLOW = Flags.flag(
            "follow", "write the page again while a run goes on; it loads itself again in the browser; Ctrl-C ends it");
    private static final Option SECONDS =
            Flags.value("every", "SECONDS", "with --follow: how often the page is written (default: " + EVERY + ")");

    @Override
    public String name() {
        return "report";
    }

    @Override
    public String summary() {
        return "Draw training runs as one HTML page: loss, FP8 health by layer and step, scales, events.";
    }

    @Override
    public List<String> operands() {
        return List.of(RUN);
    }

    @Override
    public boolean takesMore() {
        return true;
    }

    @Override
    public List<Option> options() {
        return List.of(PAGE, FOLLOW, SECONDS, Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet report runs/first",
                "octet report runs/fp8 runs/bf16 -o fp8-and-bf16.html",
                "octet report runs/first --follow");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        List<Path> runs = new ArrayList<>();
        for (int i = 0; i < arguments.operands(); i++) {
            runs.add(arguments.operand(i));
        }
        if (arguments.has(SECONDS) && !arguments.has(FOLLOW)) {
            throw arguments.usage("--every without --follow", "add --follow");
        }
        int every = arguments.integer(SECONDS, EVERY, 1, 86_400);
        Report.Request request = Report.Request.of(runs);
        request = arguments.path(PAGE).map(request::onPage).orElse(request);
        Report.Result result;
        if (arguments.has(FOLLOW)) {
            try (ReportSession session = new ReportSession(every, arguments, screen)) {
                result = Report.follow(request, every, session, arguments.job(TaskListener.NONE));
            }
        } else {
            result = Report.run(request, arguments.job(TaskListener.NONE));
        }
        screen.answer(arguments, result, () -> page(result));
        return ExitCode.OK;
    }

    private static String page(Report.Result result) {
        Table table = new Table().heading("run", "state", "step", "loss", "best evaluation", "events");
        for (Report.Run run : result.runs()) {
            table.row(
                    run.run(),
                    run.state(),
                    run.step() + " of " + run.steps(),
                    number(run.smoothLoss()),
                    number(run.bestEvalLoss()),
                    events(run));
        }
        return table.text(0) + "report: " + Printable.of(result.page()) + ", " + Quantity.bytes(result.bytes()) + "\n";
    }

    private static String events(Report.Run run) {
        List<String> kinds = new ArrayList<>();
        run.events().forEach((kind, n) -> {
            if (!kind.equals("session") && !kind.equals("checkpoint")) {
                kinds.add(n + " " + kind.replace('_', ' '));
            }
        });
        return String.join(", ", kinds);
    }

    private static String number(@Nullable Double value) {
        return value == null ? "" : String.format(Locale.ROOT, "%.4f", value);
    }
}
