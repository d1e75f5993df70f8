package dev.octet.cli;

import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.TaskListener;
import dev.octet.quant.statistics.ExpertCoverage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;

/** {@code octet calibrate MODEL -o STATS}: runs data through the model and writes the statistics of its activations. */
final class CalibrateCommand implements Command {
    private static final Option MEMORY = Flags.value(
            "memory",
            "SIZE",
            "memory for weights, as 8G or 500M: a model with more runs piece by piece, values between pieces lie on"
                    + " disk next to the output; the statistics are the same (default: 4G)");

    private static final Option SECOND_MOMENTS = Flags.flag(
            "second-moments",
            "also write the second moments that 'octet quantize --statistics' rounds by with GPTQ and predicts errors"
                    + " from, next to the output as FILE.moments: 4 K^2 bytes for each input of K channels (67 MB for a"
                    + " BERT of 6 layers) (default: no, weights are then rounded to nearest)");
    private static final Option MERGE =
            Flags.flag("merge", "merge the statistics files given instead of a model; no data is needed");

    private static final Pattern SIZE = Pattern.compile("(\\d{1,9})([KMG]?)");
    /** Powers of two by their letters. */
    private static final Map<String, Integer> UNITS = Map.of("K", 10, "M", 20, "G", 30);

    @Override
    public String name() {
        return "calibrate";
    }

    @Override
    public String summary() {
        return "Run data through a model and write the statistics of its activations; continues where it was"
                + " interrupted.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options =
                new ArrayList<>(List.of(Flags.OUTPUT, DataFlags.CALIBRATION, DataFlags.DATA_FOR_CALIBRATION));
        options.addAll(DataFlags.all());
        options.addAll(List.of(SECOND_MOMENTS, MEMORY, MERGE, Flags.THREADS, Flags.FORCE, Flags.DRY_RUN));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet calibrate model.onnx -o model.stats --calibration texts.jsonl --tokenizer tokenizer.json"
                        + " --second-moments",
                "octet calibrate model.onnx -o model.stats --calibration inputs.npz --samples 256",
                "octet calibrate Llama-3.1-8B -o llama.stats --data texts.jsonl --memory 8G",
                "octet calibrate --merge a.stats b.stats -o both.stats");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(MERGE)) {
            arguments.requireOperands();
        } else if (arguments.operands() < 2) {
            throw arguments.usage("--merge needs two statistics files or more", "octet calibrate --merge A B -o BOTH");
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        if (arguments.has(SECOND_MOMENTS)) {
            arguments
                    .paths()
                    .writing("--output, its second moments", Calibrate.momentsOf(output))
                    .requireApart();
        }
        if (arguments.has(MERGE)) {
            List<Path> parts = new ArrayList<>();
            for (int i = 0; i < arguments.operands(); i++) {
                parts.add(arguments.operand(i));
            }
            Set<Calibrate.Choice> choices =
                    arguments.has(SECOND_MOMENTS) ? Set.of(Calibrate.Choice.SECOND_MOMENTS) : Set.of();
            arguments.requireInputs();
            print(Calibrate.merge(parts, output, choices, arguments.job(TaskListener.NONE)), arguments, screen);
            return ExitCode.OK;
        }
        Calibrate.Request request = Calibrate.Request.of(
                        arguments.operand(0), output, DataFlags.source(arguments, data(arguments)))
                .withMemory(memory(arguments));
        if (arguments.has(SECOND_MOMENTS)) {
            request = request.with(Calibrate.Choice.SECOND_MOMENTS);
        }
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            if (arguments.has(Flags.DRY_RUN)) {
                Calibrate.Planned planned = Calibrate.plan(request, arguments.job(progress));
                if (arguments.has(Flags.JSON)) {
                    screen.out().println(Json.answer(arguments.verb(), planned));
                    return ExitCode.OK;
                }
                screen.out()
                        .println("would measure " + planned.tensors() + " tensors over " + planned.samples()
                                + " samples of " + planned.data()
                                + (planned.momentsBytes() > 0
                                        ? ", and second moments of " + Quantity.bytes(planned.momentsBytes())
                                        : ""));
                return ExitCode.OK;
            }
            Calibrate.Result result = Calibrate.run(request, arguments.job(progress));
            progress.end();
            print(result, arguments, screen);
        }
        return ExitCode.OK;
    }

    private static Path data(Arguments arguments) {
        return DataFlags.file(arguments)
                .orElseThrow(() -> arguments.usage(
                        "missing --calibration FILE", "give real samples as .npz or .jsonl; never calibrate on noise"));
    }

    private static long memory(Arguments arguments) {
        Optional<String> text = arguments.text(MEMORY);
        if (text.isEmpty()) {
            return CalibrationOptions.DEFAULT_MEMORY;
        }
        Matcher m = SIZE.matcher(text.get());
        if (!m.matches()) {
            throw arguments.usage(
                    "--memory needs a size, got '" + text.get() + "'", "for example 8G for eight GiB, or 500M");
        }
        return Long.parseLong(m.group(1)) << UNITS.getOrDefault(m.group(2), 0);
    }

    private static void print(Calibrate.Result answer, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.answer(arguments.verb(), answer));
        } else {
            Table table = new Table()
                    .row("statistics", answer.output())
                    .row("tensors", answer.tensors())
                    .row("samples", answer.samples() + (answer.resumed() ? " (continued)" : ""))
                    .row("time", Quantity.seconds(answer.seconds()));
            if (answer.moments() != null) {
                table.row("second moments", answer.moments() + "  " + Quantity.bytes(answer.momentsBytes()));
            }
            if (!answer.nonFinite().isEmpty()) {
                table.row("NaN or infinite", String.join(", ", answer.nonFinite()));
            }
            screen.out().print(table.text(0));
            printExperts(answer.experts(), screen);
        }
    }

    /** How many tokens experts saw, a line for each layer. */
    private static void printExperts(List<ExpertCoverage> layers, Screen screen) {
        if (layers.isEmpty()) {
            return;
        }
        Table table = new Table().heading("tokens of experts", "experts", "least", "median", "most", "never reached");
        for (ExpertCoverage layer : layers) {
            List<Long> sorted = layer.tokens().stream().sorted().toList();
            String unseen = layer.unseen().stream().map(String::valueOf).collect(Collectors.joining(", "));
            table.row(
                    Printable.of(layer.module()),
                    sorted.size(),
                    sorted.getFirst(),
                    sorted.get(sorted.size() / 2),
                    sorted.getLast(),
                    unseen);
        }
        screen.out().print("\n" + table.text(0));
        if (layers.stream().anyMatch(l -> !l.unseen().isEmpty())) {
            screen.out()
                    .println("\nan expert that no token reached gets the largest input scale of its siblings in a"
                            + " checkpoint, and stays as it is in an ONNX file; more and other texts reach more");
        }
    }
}
