package dev.octet.cli;

import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.verify.Finding;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.device.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet export RUN -o OUT --target T}: a checkpoint of a run for evaluation and serving, with a proof. */
final class ExportCommand implements Command {
    private static final int MAX_SAMPLES = 1 << 20;
    private static final double MAX_GATE = 1e9;
    private static final Map<String, DType> TYPES = types();
    private static final Map<String, ExportTarget> TARGETS = Flags.byName(ExportTarget.ALL, ExportTarget::label);

    private static final Option TARGET =
            Flags.value("target", "NAME", "who reads it: " + String.join(", ", TARGETS.keySet()) + " (must be given)");
    private static final Option DTYPE = Flags.value(
            "dtype",
            "fp32|bf16|fp16",
            "type of weights that are not quantised; not for onnxruntime, tensorrt (default: in folders that of the"
                    + " folder that the run was started with, else fp32)");
    private static final Option RECIPE =
            Flags.value("recipe", "NAME", "how weights are quantised, as for quantize (default: as the run computed)");
    private static final Option STEP = Flags.value("step", "N", "the checkpoint of step N (default: the newest)");
    private static final PathOption MODEL =
            PathOption.read("model", "MODEL", "the model that the run was started with (default: where it was then)");
    private static final PathOption DATA = PathOption.read(
            "data", "FILE", "samples for the proof (default: the run's eval data, else its training data)");
    private static final Option SAMPLES = Flags.value("samples", "N", "how many samples to prove with (default: 32)");
    private static final Option GATE = Flags.value(
            "gate",
            "X",
            "exit with 1 when the difference to the trainer's logits is above X times their norm (default: 0.15 with"
                    + " FP8, 0.03 with BF16 or F16, else 0.001)");
    private static final Option PROVE_ONLY =
            Flags.flag("prove-only", "write nothing: prove what lies at --output, which an earlier export wrote");

    private static final Option NO_PROOF =
            Flags.flag("no-proof", "write without the proof, which needs ONNX Runtime; --prove-only does it later");

    /**
     * What {@code --json} prints.
     *
     * @param proof null with {@code --no-proof}
     */
    record Answer(
            String run,
            long step,
            String target,
            String output,
            @Nullable String recipe,
            int fp8Layers,
            List<Exported.Kept> kept,
            List<String> notes,
            ExportProof.@Nullable Result proof) {}

    private static Map<String, DType> types() {
        Map<String, DType> types = new LinkedHashMap<>();
        types.put("fp32", DType.F32);
        types.put("bf16", DType.BF16);
        types.put("fp16", DType.F16);
        return types;
    }

    @Override
    public String name() {
        return "export";
    }

    @Override
    public String summary() {
        return "Write a checkpoint of a run for evaluation, with the run's scales, and prove its logits.";
    }

    @Override
    public List<String> operands() {
        return List.of(RUN);
    }

    @Override
    public List<Option> options() {
        return List.of(
                Flags.OUTPUT,
                TARGET,
                DTYPE,
                RECIPE,
                STEP,
                MODEL,
                DATA,
                SAMPLES,
                GATE,
                PROVE_ONLY,
                NO_PROOF,
                TrainCommand.DEVICE,
                Flags.THREADS,
                Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet export runs/first -o model.fp8.onnx --target onnxruntime",
                "octet export runs/first -o model-fp8 --target compressed-tensors --dtype bf16",
                "octet export runs/first -o model-tuned --target huggingface");
    }

    @Override
    public boolean writes(Arguments arguments) {
        return !arguments.has(PROVE_ONLY);
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        if (writes(arguments)) {
            arguments.refuseExisting(output);
        }
        ExportTarget target = target(arguments, output);
        ExportOptions options = options(arguments, target);
        boolean proves = proves(arguments);
        if (proves) {
            OnnxRuntime.require();
        }
        int step = arguments.integer(STEP, 0, 1, Integer.MAX_VALUE);
        try (Progress progress = arguments.progress(screen);
                Device device = TrainCommand.device(arguments)) {
            ExportProof.Options proving = proving(arguments, progress);
            try (TrainedRun run = TrainedRun.open(arguments.operand(0), arguments.path(MODEL), step)) {
                Exported exported = run.export(target, output, options);
                ExportProof.@Nullable Result proof = proves ? run.prove(exported, device, proving) : null;
                progress.end();
                Answer answer = new Answer(
                        run.folder().toString(),
                        run.step(),
                        target.label(),
                        output.toString(),
                        exported.recipe() == null ? null : exported.recipe().name(),
                        exported.fp8Layers(),
                        exported.kept(),
                        exported.notes(),
                        proof);
                screen.out().print(arguments.has(Flags.JSON) ? Json.page(answer) + "\n" : page(answer, arguments));
                return proof == null || proof.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
            }
        }
    }

    private static boolean proves(Arguments arguments) {
        if (!arguments.has(NO_PROOF)) {
            return true;
        }
        for (Option option : List.of(PROVE_ONLY, DATA, SAMPLES, GATE)) {
            if (arguments.has(option)) {
                throw arguments.usage(
                        "--no-proof and --" + option.getLongOpt() + " contradict each other", "give one of them");
            }
        }
        return false;
    }

    private static ExportTarget target(Arguments arguments, Path output) {
        if (!arguments.has(TARGET)) {
            throw arguments.usage("missing --target NAME", "one of " + String.join(", ", TARGETS.keySet()));
        }
        ExportTarget target = arguments.choice(TARGET, TARGETS, ExportTarget.Floats.ONNX);
        if (!output.toString().endsWith(target.extension())) {
            throw arguments.usage(
                    "--target " + target.label() + " writes one file",
                    "end the name of --output in " + target.extension());
        }
        return target;
    }

    private static ExportOptions options(Arguments arguments, ExportTarget target) {
        if (target instanceof ExportTarget.Onnx && arguments.has(DTYPE)) {
            throw arguments.usage("--dtype is for unquantised targets and checkpoints", "leave it out");
        }
        if (target.recipes().isEmpty() && arguments.has(RECIPE)) {
            throw arguments.usage("--recipe is for quantised targets", "leave it out");
        }
        Map<String, Optional<Recipe>> recipes = new LinkedHashMap<>();
        target.recipes().forEach(r -> recipes.put(r.name(), Optional.of(r)));
        return new ExportOptions(
                arguments.has(DTYPE) ? Optional.of(arguments.choice(DTYPE, TYPES, DType.F32)) : Optional.empty(),
                arguments.choice(RECIPE, recipes, Optional.empty()),
                arguments.threads(),
                arguments.has(Flags.FORCE),
                !arguments.has(PROVE_ONLY));
    }

    private static ExportProof.Options proving(Arguments arguments, Progress progress) {
        return new ExportProof.Options(
                arguments.path(DATA),
                arguments.integer(SAMPLES, ExportProof.Options.SAMPLES, 1, MAX_SAMPLES),
                arguments.number(GATE, 0, MAX_GATE),
                EvaluationOptions.defaults()
                        .withThreads(arguments.threads())
                        .withProgress((done, total) -> progress.update("proving", done, total, "samples")));
    }

    private static String page(Answer answer, Arguments arguments) {
        Table table = new Table()
                .row("run", answer.run() + ", step " + answer.step())
                .row("target", answer.target() + (answer.recipe() == null ? "" : ", " + answer.recipe()))
                .row(arguments.has(PROVE_ONLY) ? "read" : "written", answer.output());
        if (answer.fp8Layers() > 0) {
            table.row("FP8", answer.fp8Layers() + " Linear");
        }
        answer.kept().forEach(k -> table.row("kept", k.layer() + ": " + k.reason()));
        answer.notes().forEach(n -> table.row("note", n));
        StringBuilder page = new StringBuilder(table.text(0));
        ExportProof.@Nullable Result proof = answer.proof();
        if (proof == null) {
            return page.append("\nnot proved; with the full archive: octet export ")
                    .append(answer.run())
                    .append(" -o ")
                    .append(answer.output())
                    .append(" --target ")
                    .append(answer.target())
                    .append(" --prove-only\n")
                    .toString();
        }
        Table gaps = new Table().row("beside the trainer", "largest difference", "cosine", "relative");
        for (ExportProof.Gap gap : proof.gaps()) {
            gaps.row(
                    gap.output(),
                    String.format(Locale.ROOT, "%.3g", gap.maxAbs()),
                    String.format(Locale.ROOT, "%.6f", gap.cosine()),
                    String.format(Locale.ROOT, "%.3g", gap.relative()));
        }
        page.append('\n').append(gaps.text(0));
        for (Finding finding : proof.uncovered()) {
            page.append(String.format(
                    Locale.ROOT,
                    "%n%s: %s%n  fix:   %s%n",
                    finding.what(),
                    finding.places().stream().map(Finding.Place::name).collect(Collectors.joining(", ")),
                    finding.fix()));
        }
        page.append(String.format(
                Locale.ROOT,
                "%nproof on %d samples of %s: %.3g, wanted at most %s: %s%n",
                proof.samples(),
                proof.data(),
                proof.worst(),
                proof.gate(),
                proof.passed() ? "passed" : "FAILED"));
        return page.toString();
    }
}
