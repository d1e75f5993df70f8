package dev.octet.cli;

import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.Gradient;
import dev.octet.pipeline.TaskListener;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.config.LossConfig;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.commons.cli.Option;

/** {@code octet gradient MODEL --golden FILE}: outputs and gradients of a graph compared with expected ones. */
final class GradientCommand implements Command {
    private static final Map<String, DeviceName> DEVICES =
            Map.of("cpu", DeviceName.CPU, "reference", new DeviceName("reference"));

    private static final PathOption GOLDEN = PathOption.read(
            "golden",
            "FILE",
            "safetensors file with in.INPUT, upstream.OUTPUT (or in.labels and --loss), out.OUTPUT, grad.NAME");
    private static final Option TOLERANCE = Flags.value(
            "tolerance",
            "R",
            "exit with 1 when an element is further from the expected one than R times the largest of its tensor"
                    + " (default: 1e-5)");
    private static final Option LOSS = Flags.value(
            "loss",
            "TYPE",
            "differentiate this loss of the output and in.labels: causal-lm (labels are the tokens), cross-entropy,"
                    + " mse, cosine (default: upstream gradients are in the file)");
    private static final Option OUTPUT =
            Flags.value("loss-output", "NAME", "output the loss is computed from (default: logits, or the only one)");
    private static final Option RENAME =
            Flags.repeatable("rename", "FILE_NAME=GRAPH_NAME", "the graph calls the parameter otherwise than the file");
    private static final Option TIE =
            Flags.flag("tie", "make one of parameters that the export wrote twice, as stored or transposed");
    private static final Option DEVICE =
            Flags.value("device", "cpu|reference", "cpu computes in F32, reference in F64 and slowly (default: cpu)");
    private static final Option PROGRAM = Flags.flag("program", "print the steps of the program, too");

    /**
     * What {@code --json} prints; differences from the largest error down.
     *
     * @param untied parameters that the export wrote twice and that were taken for two
     */
    record Answer(
            String model,
            String golden,
            String device,
            double tolerance,
            boolean passed,
            int steps,
            long arenaBytes,
            String programSha256,
            List<Tie> untied,
            List<GoldenDifference> differences) {}

    @Override
    public String name() {
        return "gradient";
    }

    @Override
    public String summary() {
        return "Compare the outputs and gradients of a graph with expected ones.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(GOLDEN, TOLERANCE, LOSS, OUTPUT, RENAME, TIE, DEVICE, PROGRAM, Flags.THREADS);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet gradient model.onnx --golden expected.safetensors",
                "octet gradient gpt2.onnx --golden expected.safetensors --loss causal-lm --tie --tolerance 1e-4");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        double tolerance = arguments.number(TOLERANCE, 0, 1e6).orElse(Gradient.Request.TOLERANCE);
        Optional<Gradient.Loss> loss = loss(arguments);
        Map<String, String> renamed = renamed(arguments);
        Gradient.Request request = new Gradient.Request(
                arguments.operand(0),
                arguments.requiredPath(GOLDEN),
                tolerance,
                loss,
                renamed,
                arguments.has(TIE) ? Gradient.Twins.TIED : Gradient.Twins.APART,
                arguments.choice(DEVICE, DEVICES, DeviceName.CPU));
        Gradient.Result result = Gradient.run(request, arguments.job(TaskListener.NONE));
        Answer answer = new Answer(
                result.model(),
                result.golden(),
                result.device(),
                tolerance,
                result.passed(),
                result.steps(),
                result.arenaBytes(),
                result.programSha256(),
                result.untied(),
                result.differences());
        print(answer, arguments, screen, result.program());
        return answer.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }

    private static Optional<Gradient.Loss> loss(Arguments arguments) {
        Map<String, LossConfig.Type> types = new LinkedHashMap<>();
        for (LossConfig.Type t : LossConfig.Type.values()) {
            if (t == LossConfig.Type.DPO) {
                continue; // which compares with a second model
            }
            types.put(t.name().toLowerCase(Locale.ROOT).replace('_', '-'), t);
        }
        return arguments.has(LOSS)
                ? Optional.of(new Gradient.Loss(
                        arguments.choice(LOSS, types, LossConfig.Type.CROSS_ENTROPY), arguments.text(OUTPUT)))
                : Optional.empty();
    }

    private static Map<String, String> renamed(Arguments arguments) {
        Map<String, String> renamed = new TreeMap<>();
        for (String pair : arguments.texts(RENAME)) {
            int equals = pair.indexOf('=');
            if (equals <= 0 || equals == pair.length() - 1) {
                throw arguments.usage("--rename '" + pair + "' is not FILE_NAME=GRAPH_NAME", "give both names");
            }
            renamed.put(pair.substring(0, equals), pair.substring(equals + 1));
        }
        return renamed;
    }

    private static void print(Answer answer, Arguments arguments, Screen screen, String program) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.answer(arguments.verb(), answer));
            return;
        }
        if (arguments.has(PROGRAM)) {
            screen.out().print(program);
        }
        Table table = new Table().heading("tensor", "error", "largest", "elements", "worst at", "computed", "expected");
        for (GoldenDifference d : answer.differences()) {
            table.row(
                    d.tensor(),
                    number(d.error()),
                    number(d.scale()),
                    d.elements(),
                    d.worst(),
                    number(d.computed()),
                    number(d.expected()));
        }
        screen.out().print(table.text(0));
        answer.untied()
                .forEach(t -> screen.out()
                        .println("note: " + t.copy() + " has the elements of " + t.original()
                                + (t.transposed() ? ", transposed" : "")
                                + ": with --tie they are one parameter, and their gradients one sum"));
        GoldenDifference worst = answer.differences().getFirst();
        screen.out()
                .println("\n" + answer.steps() + " steps, " + Quantity.bytes(answer.arenaBytes())
                        + " of temporaries on " + answer.device() + ", program " + answer.programSha256());
        screen.out()
                .println("largest relative error " + number(worst.error()) + " of " + worst.tensor() + ", "
                        + (answer.passed() ? "within" : "above") + " " + number(answer.tolerance()));
    }

    private static String number(double x) {
        return String.format(Locale.ROOT, "%.3g", x);
    }
}
