package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.check.Golden;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.check.GradientCheck;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet gradient MODEL --golden FILE}: outputs and gradients of a graph beside expected ones. */
final class GradientCommand implements Command {
    private static final double USUAL_TOLERANCE = 1e-5;
    private static final String LABELS = "labels";
    /** Label of positions that do not count, in torch and transformers. */
    private static final long IGNORED = -100;

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
        double tolerance = arguments.number(TOLERANCE, 0, 1e6).orElse(USUAL_TOLERANCE);
        Optional<LossConfig> loss = loss(arguments);
        Map<String, String> renamed = renamed(arguments);
        Path goldenPath = arguments.requiredPath(GOLDEN);
        try (Device device = device(arguments);
                ModelSource model = ModelSource.open(arguments.operand(0));
                ModelFile file = ModelFile.open(goldenPath)) {
            Golden read = Golden.of(file.model().tensors(), goldenPath.toString());
            try (Converter converter = model.converter()) {
                GraphModel canonical = converter.canonical();
                Golden golden = read.withInputs(
                        Feed.withTokenTypes(read.inputs(), canonical.graph().inputs()));
                List<Tie> ties = Ties.find(canonical.graph());
                boolean tie = arguments.has(TIE);
                GradientCheck check = check(tie ? Ties.restore(canonical, ties) : canonical, golden, loss, renamed);
                List<GoldenDifference> all = check.run(device).stream()
                        .sorted(Comparator.comparingDouble(GoldenDifference::error)
                                .reversed()
                                .thenComparing(GoldenDifference::tensor))
                        .toList();
                Program program = check.program();
                Answer answer = new Answer(
                        model.path().toString(),
                        goldenPath.toString(),
                        device.name(),
                        tolerance,
                        all.getFirst().error() <= tolerance,
                        program.steps().size(),
                        MemoryPlan.of(program).arenaBytes(),
                        program.digest(),
                        tie ? List.of() : ties,
                        all);
                print(answer, arguments, screen, program);
                return answer.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
            }
        }
    }

    private static GradientCheck check(
            GraphModel model, Golden golden, Optional<LossConfig> loss, Map<String, String> renamed) {
        Map<String, Shape> shapes = new TreeMap<>();
        golden.inputs().forEach((name, t) -> shapes.put(name, t.shape()));
        GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
        if (loss.isEmpty()) {
            return new GradientCheck(concrete, null, golden, renamed);
        }
        LossGraph graph = LossGraph.of(concrete, loss.get(), labels(golden));
        return new GradientCheck(graph.model(), graph.loss(), golden, renamed);
    }

    private static OperandType labels(Golden golden) {
        Tensor labels = golden.inputs().get(LABELS);
        if (labels == null) {
            throw new InvalidOptionException(
                    "--loss needs in." + LABELS, "the golden file", "add the labels, or leave --loss out");
        }
        return new OperandType(labels.dtype(), labels.shape());
    }

    private static Optional<LossConfig> loss(Arguments arguments) {
        Map<String, LossConfig.Type> types = new LinkedHashMap<>();
        for (LossConfig.Type t : LossConfig.Type.values()) {
            types.put(t.name().toLowerCase(Locale.ROOT).replace('_', '-'), t);
        }
        LossConfig.@Nullable Type type =
                arguments.has(LOSS) ? arguments.choice(LOSS, types, LossConfig.Type.CROSS_ENTROPY) : null;
        return Optional.ofNullable(type)
                .map(t -> new LossConfig(t, arguments.text(OUTPUT), LABELS, IGNORED, Optional.empty()));
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

    private static Device device(Arguments arguments) {
        return switch (arguments.choice(DEVICE, Map.of("cpu", "cpu", "reference", "reference"), "cpu")) {
            case "reference" -> new ReferenceDevice();
            default -> CpuDevice.of(arguments.threads());
        };
    }

    private static void print(Answer answer, Arguments arguments, Screen screen, Program program) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.page(answer));
            return;
        }
        if (arguments.has(PROGRAM)) {
            screen.out().print(program.text());
        }
        Table table = new Table().row("tensor", "error", "largest", "elements", "worst at", "computed", "expected");
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
                                + (t.transposed() ? ", turned over" : "")
                                + ": with --tie they are one parameter, and their gradients one sum"));
        GoldenDifference worst = answer.differences().getFirst();
        screen.out()
                .println("\n" + answer.steps() + " steps, " + Table.bytes(answer.arenaBytes()) + " of temporaries on "
                        + answer.device() + ", program " + answer.programSha256());
        screen.out()
                .println("largest relative error " + number(worst.error()) + " of " + worst.tensor() + ", "
                        + (answer.passed() ? "within" : "above") + " " + number(answer.tolerance()));
    }

    private static String number(double x) {
        return String.format(Locale.ROOT, "%.3g", x);
    }
}
