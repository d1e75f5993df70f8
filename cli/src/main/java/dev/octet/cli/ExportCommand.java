package dev.octet.cli;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.checkpoint.RunOptions;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.lower.Target;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.trained.ModuleState;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Operand;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.Granularity;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.LayerScales;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.precision.TensorScale;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet export RUN -o OUT --target T}: a checkpoint of a run for evaluation and serving, with a proof. */
final class ExportCommand implements Command {
    private static final String TRANSFORMER_ENGINE = "transformer-engine";
    private static final String ONNX = "onnx";
    private static final String SAFETENSORS = "safetensors";
    private static final int DEFAULT_SAMPLES = 32;
    private static final int MAX_SAMPLES = 1 << 20;
    private static final double MAX_GATE = 1e9;
    private static final Map<String, DType> TYPES = types();
    private static final List<String> TARGETS = targets();

    private static final Option TARGET =
            Flags.value("target", "NAME", "who reads it: " + String.join(", ", TARGETS) + " (must be given)");
    private static final Option DTYPE = Flags.value(
            "dtype",
            "fp32|bf16",
            "type of weights that are not quantised; not for onnxruntime, tensorrt (default: fp32)");
    private static final Option RECIPE =
            Flags.value("recipe", "NAME", "how weights are quantised, as for quantize (default: as the run computed)");
    private static final Option STEP = Flags.value("step", "N", "the checkpoint of step N (default: the newest)");
    private static final Option MODEL =
            Flags.value("model", "FILE", "the model that the run was started with (default: where it was then)");
    private static final Option DATA =
            Flags.value("data", "FILE", "samples for the proof (default: the run's eval data, else its training data)");
    private static final Option SAMPLES = Flags.value("samples", "N", "how many samples to prove with (default: 32)");
    private static final Option GATE = Flags.value(
            "gate",
            "X",
            "exit with 1 when the difference to the trainer's logits is above X times their norm (default: 0.15 with"
                    + " FP8, 0.03 with BF16 or F16, else 0.001)");
    private static final Option PROVE_ONLY =
            Flags.flag("prove-only", "write nothing: prove what lies at --output, which an earlier export wrote");

    /** What {@code --json} prints. */
    record Answer(
            String run,
            long step,
            String target,
            String output,
            @Nullable String recipe,
            int fp8Layers,
            List<Kept> kept,
            List<String> notes,
            ExportProof.Result proof) {}

    /** A layer that is not in FP8. */
    record Kept(String layer, String reason) {}

    private static Map<String, DType> types() {
        Map<String, DType> types = new LinkedHashMap<>();
        types.put("fp32", DType.F32);
        types.put("bf16", DType.BF16);
        return types;
    }

    private static List<String> targets() {
        List<String> names = new ArrayList<>();
        for (Target t : Target.values()) {
            names.add(t.label());
        }
        names.addAll(CheckpointFlags.LAYOUTS.keySet());
        names.addAll(List.of(TRANSFORMER_ENGINE, ONNX, SAFETENSORS));
        return names;
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
        return List.of("RUN");
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
                TrainCommand.DEVICE,
                Flags.THREADS,
                Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet export runs/first -o model.fp8.onnx --target onnxruntime",
                "octet export runs/first -o model-fp8 --target compressed-tensors --dtype bf16");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        if (!arguments.has(PROVE_ONLY)) {
            arguments.refuseExisting(output);
        }
        String target = target(arguments);
        checkChoices(arguments, target, output);
        RunFolder run = RunFolder.open(arguments.operand(0), arguments.path(MODEL));
        long step = arguments.integer(STEP, 0, 1, Integer.MAX_VALUE);
        try (TrainCommand.Opened source = TrainCommand.Opened.of(run.model());
                CheckpointFile checkpoint = run.checkpoint(step);
                Progress progress = arguments.progress(screen)) {
            TrainingState state = checkpoint.state();
            List<Tie> ties = run.config().ties().of(Ties.find(source.canonical().graph()));
            GraphSource trained = source.source().withTies(ties);
            List<LayerScales> layers = layers(run, trained, state);
            Export export = new Export(arguments, run, source, trained, ties, state, layers, target, output);
            Written written = export.write();
            ExportProof.Result proof = export.prove(written.recipe(), progress);
            progress.end();
            Answer answer = new Answer(
                    run.folder().toString(),
                    state.step(),
                    target,
                    output.toString(),
                    written.recipe() == null ? null : written.recipe().name(),
                    written.fp8Layers(),
                    written.kept(),
                    written.notes(),
                    proof);
            screen.out().print(arguments.has(Flags.JSON) ? Json.page(answer) + "\n" : page(answer, arguments));
            return proof.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
        }
    }

    private static String target(Arguments arguments) {
        Map<String, String> names = new LinkedHashMap<>();
        TARGETS.forEach(t -> names.put(t, t));
        if (arguments.text(TARGET).isEmpty()) {
            throw arguments.usage("missing --target NAME", "one of " + String.join(", ", TARGETS));
        }
        return arguments.choice(TARGET, names, ONNX);
    }

    /** What is wrong with the command line, before any work. */
    private static void checkChoices(Arguments arguments, String target, Path output) {
        arguments.number(GATE, 0, MAX_GATE);
        arguments.integer(SAMPLES, DEFAULT_SAMPLES, 1, MAX_SAMPLES);
        boolean onnx = target.equals(ONNX) || Target.named(target).isPresent();
        boolean safetensors = target.equals(SAFETENSORS) || target.equals(TRANSFORMER_ENGINE);
        String ending = onnx ? ".onnx" : safetensors ? ".safetensors" : "";
        if (!output.toString().endsWith(ending)) {
            throw arguments.usage("--target " + target + " writes one file", "end the name of --output in " + ending);
        }
    }

    private static List<LayerScales> layers(RunFolder run, GraphSource trained, TrainingState state) {
        PrecisionPolicy policy = run.config().precision().policy();
        return policy instanceof Fp8Policy fp8
                ? fp8.layers(trained.graph().graph()).stream()
                        .map(l -> LayerScales.of(l, state.state(), state.parameters()))
                        .toList()
                : List.of();
    }

    /** What was written. */
    private record Written(@Nullable Recipe recipe, int fp8Layers, List<Kept> kept, List<String> notes) {}

    /**
     * One export, with all it needs.
     *
     * @param source the model as it was exported, and as it is exported again
     * @param trained as the run trained it
     * @param ties parameters that are one in {@code trained} and two in {@code source}
     */
    private record Export(
            Arguments arguments,
            RunFolder run,
            TrainCommand.Opened source,
            GraphSource trained,
            List<Tie> ties,
            TrainingState state,
            List<LayerScales> layers,
            String target,
            Path output) {
        Written write() throws IOException {
            Map<String, Tensor> weights = Ties.withCopies(state.parameters(), ties, Arena.ofAuto());
            try (TrainedModel model = TrainedModel.of(source.converter(), weights, scales())) {
                Optional<Target> onnx = Target.named(target);
                Layout layout = CheckpointFlags.LAYOUTS.get(target);
                if (onnx.isPresent()) {
                    return quantized(model, onnx.get());
                }
                return layout != null ? quantized(model, layout) : plain(model);
            }
        }

        private boolean writes() {
            return !arguments.has(PROVE_ONLY);
        }

        private DType type() {
            return arguments.choice(DTYPE, TYPES, DType.F32);
        }

        /** The converter's form of the run's scales, for the Linears whose forward product was in FP8. */
        private Map<String, LinearScales> scales() {
            Map<String, LinearScales> scales = new LinkedHashMap<>();
            for (LayerScales s : layers) {
                TensorScale input = s.input();
                TensorScale weight = s.weight();
                Float inputScale = input == null || input.scale() < Float.MIN_NORMAL ? null : input.scale();
                scales.put(
                        s.layer().node(),
                        new LinearScales(
                                input == null ? 0 : input.amax(),
                                inputScale,
                                weight == null || weight.scale() < Float.MIN_NORMAL ? null : weight.quantScale(),
                                inputScale != null ? "" : input == null ? s.reason() : "its input was all but zero"));
            }
            return scales;
        }

        private boolean anyInput() {
            return layers.stream().anyMatch(s -> s.input() != null);
        }

        private boolean oneScalePerWeight() {
            return layers.stream().anyMatch(s -> s.weight() != null);
        }

        private Written quantized(TrainedModel model, Target onnx) throws IOException {
            if (arguments.has(DTYPE)) {
                throw arguments.usage("--dtype is for unquantised targets and checkpoints", "leave it out");
            }
            Recipe usual =
                    !anyInput() ? Recipes.FP8_WEIGHT_ONLY : oneScalePerWeight() ? Recipes.FP8_PER_TENSOR : Recipes.FP8;
            Map<String, Recipe> known = new LinkedHashMap<>();
            Recipes.GRAPH.forEach(r -> known.put(r.name(), r));
            Recipe recipe = arguments.choice(RECIPE, known, usual);
            if (recipe.needsStatistics() && !anyInput()) {
                throw new UnsupportedModelException(
                        "the run observed no static scale of any input, which " + recipe.name() + " needs",
                        run.folder().toString(),
                        "leave --recipe out for weights alone, or export with --target onnx and use `octet quantize`");
            }
            Conversion conversion = model.quantized(
                    recipe,
                    ConversionOptions.defaults().withTarget(onnx).withThreads(arguments.threads()),
                    Map.of("octet.run.step", Long.toString(state.step())));
            if (writes()) {
                conversion.save(output);
            }
            List<Kept> kept = conversion.plan().kept().stream()
                    .filter(k -> k.kind() == LayerKind.LINEAR)
                    .map(k -> new Kept(k.node(), k.reason()))
                    .toList();
            int converted = (int) conversion.plan().converted().stream()
                    .map(Decision.Converted::kind)
                    .filter(LayerKind.LINEAR::equals)
                    .count();
            return new Written(recipe, converted, kept, weightOnlyNote(recipe));
        }

        private List<String> weightOnlyNote(Recipe recipe) {
            if (recipe.fprop().input() != null || arguments.has(RECIPE)) {
                return List.of();
            }
            String why = layers.isEmpty()
                    ? "the run was in " + run.config().precision().policy().name()
                    : layers.getFirst().reason();
            return List.of("weights only: " + why);
        }

        private Written quantized(TrainedModel model, Layout layout) throws IOException {
            Recipe recipe = arguments.choice(RECIPE, CheckpointFlags.RECIPES, usual(layout));
            List<String> notes = new ArrayList<>();
            ObjectNode config = config(notes);
            if (!writes()) {
                return new Written(recipe, 0, List.of(), List.of());
            }
            RunOptions options = new RunOptions(
                    arguments.threads(),
                    arguments.has(Flags.FORCE),
                    RunOptions.defaults().progress());
            TrainedModel.Checkpointed done = model.quantized(recipe, layout, config, type(), output, options);
            notes.addAll(done.plan().notes());
            List<Kept> kept = new ArrayList<>();
            done.reasons().forEach((weight, reason) -> kept.add(new Kept(weight, reason)));
            int fp8 = (int)
                    done.plan().decisions().stream().filter(d -> d.quantized()).count();
            return new Written(recipe, fp8, kept, notes);
        }

        /** What comes nearest to how the run computed. */
        private Recipe usual(Layout layout) {
            TrainingRecipe trained =
                    layers.isEmpty() ? null : layers.getFirst().layer().recipe();
            return switch (trained) {
                case TrainingRecipe.BlockScaling _ -> Recipes.FP8_BLOCK;
                case TrainingRecipe.Mxfp8 _ -> Recipes.MXFP8;
                case null, default ->
                    anyInput() && oneScalePerWeight()
                            ? Recipes.CHECKPOINT_FP8
                            : layout.name().equals("fp8") ? Recipes.FP8_BLOCK : Recipes.FP8_DYNAMIC;
            };
        }

        /** The configuration beside the model, or above it where exporters put the model into a folder of its own. */
        private ObjectNode config(List<String> notes) throws IOException {
            Path beside = RunFolder.parent(run.model());
            Optional<ObjectNode> found = ModelConfig.read(beside);
            if (found.isEmpty() && beside.endsWith("onnx")) {
                found = ModelConfig.read(RunFolder.parent(beside));
            }
            if (found.isEmpty()) {
                notes.add("there is no config.json beside the model: the one written says how weights are quantised and"
                        + " nothing of the architecture");
            }
            return found.orElseGet(() -> new ObjectNode(JsonNodeFactory.instance));
        }

        private Written plain(TrainedModel model) throws IOException {
            if (arguments.has(RECIPE)) {
                throw arguments.usage("--recipe is for quantised targets", "leave it out");
            }
            List<ModuleState> states = target.equals(TRANSFORMER_ENGINE) ? states() : List.of();
            if (writes()) {
                if (target.equals(ONNX)) {
                    ModelFile.save(Model.of(model.plain(type())), output);
                } else {
                    ModelFile.save(Model.of(model.withState(type(), states), Map.of("format", "pt")), output);
                }
            }
            return new Written(null, states.size(), List.of(), List.of());
        }

        /** State of the modules that Transformer Engine keeps state for: those under delayed scaling. */
        private List<ModuleState> states() {
            List<ModuleState> states = new ArrayList<>();
            for (LayerScales s : layers) {
                TensorScale input = s.input();
                TensorScale weight = s.weight();
                if (input == null
                        || weight == null
                        || input.history().isEmpty()
                        || weight.history().isEmpty()) {
                    continue;
                }
                TensorScale gradient = s.gradOutput();
                states.add(new ModuleState(
                        StoredWeight.moduleOf(weight(s.layer().node())),
                        List.of(slot(input), slot(weight)),
                        gradient == null || gradient.history().isEmpty() ? List.of() : List.of(slot(gradient))));
            }
            if (states.isEmpty()) {
                throw new UnsupportedModelException(
                        "the run has no state that Transformer Engine would keep: only delayed scaling has",
                        run.folder().toString(),
                        "export with --target safetensors; recipes without state find their scales anew");
            }
            return states;
        }

        /** The weight that a node has in the file: of a restored tie, its own copy. */
        private String weight(String node) {
            return source.canonical().graph().nodes().stream()
                    .filter(n -> n.id().equals(node))
                    .findFirst()
                    .orElseThrow()
                    .input(1);
        }

        private static ModuleState.Slot slot(TensorScale scale) {
            return new ModuleState.Slot(scale.quantScale(), scale.history());
        }

        ExportProof.Result prove(@Nullable Recipe recipe, Progress progress) throws IOException {
            List<String> outputs = source.canonical().graph().outputs().stream()
                    .map(ValueInfo::name)
                    .toList();
            PrecisionPolicy policy = run.config().precision().policy();
            try (Device device = TrainCommand.device(arguments);
                    ForwardSession trainer =
                            new ForwardSession(trained, outputs, policy, state.parameters(), state.state(), device);
                    Dataset data = data()) {
                return ExportProof.of(
                        trainer,
                        output,
                        target.equals(Target.TENSORRT.label()),
                        source.canonical(),
                        isDynamic(recipe),
                        data,
                        gate(recipe),
                        EvaluationOptions.defaults()
                                .withThreads(arguments.threads())
                                .withProgress((done, total) -> progress.update("proving", done, total, "samples")));
            }
        }

        private static boolean isDynamic(@Nullable Recipe recipe) {
            Operand input = recipe == null ? null : recipe.fprop().input();
            return input != null
                    && input.scaling() == Operand.Scaling.DYNAMIC
                    && (input.granularity() instanceof Granularity.PerToken
                            || input.granularity() instanceof Granularity.PerTensor);
        }

        private Dataset data() throws IOException {
            Path file = arguments
                    .path(DATA)
                    .or(() -> run.config().data().eval())
                    .orElse(run.config().data().train());
            Feed feed = Feed.of(
                    source.canonical(), Optional.empty(), run.config().loss().ignoreIndex());
            var samples = TrainCommand.samples(file, run.config(), feed, run.model());
            int wanted = arguments.integer(SAMPLES, DEFAULT_SAMPLES, 1, MAX_SAMPLES);
            return new SampleDataset(samples, (int) Math.min(wanted, samples.count()));
        }

        private double gate(@Nullable Recipe recipe) {
            boolean fp8 = recipe != null || !layers.isEmpty();
            boolean narrow =
                    type() == DType.BF16 || run.config().precision().policy().low() != DType.F32;
            return arguments.number(GATE, 0, MAX_GATE).orElse(fp8 ? 0.15 : narrow ? 0.03 : 0.001);
        }
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
        ExportProof.Result proof = answer.proof();
        Table gaps = new Table().row("beside the trainer", "largest difference", "cosine", "relative");
        for (ExportProof.Gap gap : proof.gaps()) {
            gaps.row(
                    gap.output(),
                    String.format(Locale.ROOT, "%.3g", gap.maxAbs()),
                    String.format(Locale.ROOT, "%.6f", gap.cosine()),
                    String.format(Locale.ROOT, "%.3g", gap.relative()));
        }
        page.append('\n').append(gaps.text(0));
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
