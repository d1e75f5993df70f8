package dev.octet.cli;

import dev.octet.converter.verify.Finding;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.Export;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Prove;
import dev.octet.pipeline.Target;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.optimizer.WeightAveraging;
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
    private static final Map<String, Target> TARGETS = Flags.byName(Target.EXPORTED, Target::label);

    private static final Option TARGET = ChoiceOption.of(
            "target",
            "NAME",
            TARGETS.keySet(),
            "who reads it: " + String.join(", ", TARGETS.keySet())
                    + " (must be given; default for a run that trained an adapter: peft)");
    private static final Option DTYPE = Flags.value(
            "dtype",
            "fp32|bf16|fp16",
            "type of weights that are not quantised; not for onnxruntime, tensorrt (default: in folders that of the"
                    + " folder that the run was started with, else fp32)");
    private static final Option RECIPE = ChoiceOption.of(
            "recipe",
            "NAME",
            Flags.all(Recipes.byName(Recipes.GRAPH), CheckpointFlags.RECIPES),
            "how weights are quantised, as for quantize (default: as the run computed)");
    private static final Map<String, Optional<WeightAveraging.Kind>> WEIGHTS = weights();

    /** Which weights of a run were exported, or are to be. */
    static final Option AVERAGE = ChoiceOption.of(
            "weights",
            String.join("|", WEIGHTS.keySet()),
            WEIGHTS.keySet(),
            "the weights themselves, or an average of them that the run kept (default: trained)");

    private static final Option STEP = Flags.value(
            "step", "N|best", "the checkpoint of step N, or that of the best evaluation (default: the newest)");
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

    @Override
    public String name() {
        return "export";
    }

    @Override
    public String summary() {
        return "Export a trained checkpoint with its scales and check its outputs against the trainer.";
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
                AVERAGE,
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
                "octet export runs/first -o model-tuned --target huggingface",
                "octet export runs/lora -o adapter --target peft");
    }

    @Override
    public boolean writes(Arguments arguments) {
        return !arguments.has(PROVE_ONLY);
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Export.Request request = request(arguments);
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            Job job = arguments.job(progress);
            Export.Result result = arguments.has(PROVE_ONLY) ? Prove.run(request, job) : Export.run(request, job);
            progress.end();
            screen.answer(arguments, result, () -> page(result, arguments.has(PROVE_ONLY) ? "read" : "written"));
            return result.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
        }
    }

    private static Export.Request request(Arguments arguments) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        CheckpointFlags.refuseConsumer(arguments, TARGET);
        Optional<Target> usual = arguments.has(TARGET) ? Optional.empty() : Export.defaultTarget(arguments.operand(0));
        if (!arguments.has(TARGET) && usual.isEmpty()) {
            throw arguments.usage("missing --target NAME", "one of " + String.join(", ", TARGETS.keySet()));
        }
        Target target = arguments.choice(TARGET, TARGETS, usual.orElse(Target.Floats.ONNX));
        Export.Request request = Export.Request.of(arguments.operand(0), output, target)
                .withStep(
                        arguments.text(STEP).filter("best"::equals).isPresent()
                                ? RunFolder.BEST
                                : arguments.integer(STEP, 0, 1, Integer.MAX_VALUE));
        if (arguments.has(DTYPE)) {
            request = request.withType(arguments.choice(DTYPE, FloatName.types(), DType.F32));
        }
        if (arguments.has(RECIPE)) {
            List<Recipe> recipes = target.recipes().isEmpty() ? Recipes.GRAPH : target.recipes();
            request = request.withRecipe(
                    arguments.choice(RECIPE, Flags.byName(recipes, Recipe::name), recipes.getFirst()));
        }
        Optional<WeightAveraging.Kind> average = average(arguments);
        if (average.isPresent()) {
            request = request.withAverage(average.get());
        }
        Optional<Path> model = arguments.path(MODEL);
        if (model.isPresent()) {
            request = request.withModel(model.get());
        }
        return proves(arguments) ? request.withProof(proof(arguments)) : request;
    }

    /** The average that {@code --weights} names; empty for the weights themselves. */
    static Optional<WeightAveraging.Kind> average(Arguments arguments) {
        return arguments.choice(AVERAGE, WEIGHTS, Optional.empty());
    }

    private static Map<String, Optional<WeightAveraging.Kind>> weights() {
        Map<String, Optional<WeightAveraging.Kind>> weights = new LinkedHashMap<>();
        weights.put("trained", Optional.empty());
        for (WeightAveraging.Kind kind : WeightAveraging.Kind.values()) {
            weights.put(kind.label(), Optional.of(kind));
        }
        return weights;
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

    private static Prove.Options proof(Arguments arguments) {
        return new Prove.Options(
                arguments.path(DATA),
                arguments.integer(SAMPLES, Prove.Options.SAMPLES, 1, MAX_SAMPLES),
                arguments.number(GATE, 0, MAX_GATE),
                TrainCommand.device(arguments));
    }

    /**
     * What is printed of an export.
     *
     * @param verb what was done with the output: written, or read
     */
    static String page(Export.Result answer, String verb) {
        Table table = new Table()
                .row("run", answer.run() + ", step " + answer.step())
                .row("target", answer.target() + (answer.recipe() == null ? "" : ", " + answer.recipe()))
                .row(verb, answer.output());
        if (answer.fp8Layers() > 0) {
            table.row("FP8", answer.fp8Layers() + " Linear");
        }
        answer.kept().forEach(k -> table.row("kept", k.layer() + ": " + k.reason()));
        answer.notes().forEach(n -> table.row("note", n));
        StringBuilder page = new StringBuilder(table.text(0));
        Prove.@Nullable Result proof = answer.proof();
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
        Table gaps = new Table().heading("compared with the trainer", "largest difference", "cosine", "relative");
        for (Prove.Gap gap : proof.gaps()) {
            gaps.row(
                    gap.output(),
                    String.format(Locale.ROOT, "%.3g", gap.maxAbs()),
                    String.format(Locale.ROOT, "%.6f", gap.cosine()),
                    String.format(Locale.ROOT, "%.3g", gap.relative()));
        }
        page.append('\n').append(gaps.text(0));
        Double changed = proof.choices();
        if (changed != null) {
            page.append(String.format(
                    Locale.ROOT,
                    "%nrouters of the file would choose %.1f %% of the experts otherwise, wanted at most %.0f %%;"
                            + " compared with the trainer's choices%n",
                    100 * changed,
                    100 * proof.choicesGate()));
        }
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
                GateFlags.passed(proof.passed())));
        return page.toString();
    }
}
