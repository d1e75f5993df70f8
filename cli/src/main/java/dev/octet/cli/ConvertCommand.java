package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.Convert;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Target;
import dev.octet.pipeline.TaskListener;
import dev.octet.quant.ggml.GgmlEncode;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet convert MODEL -o OUT --target T}: a quantised checkpoint to another layout, a model to ONNX and back. */
final class ConvertCommand implements Command {
    private static final Map<String, Target> TARGETS = Flags.byName(Target.CONVERTED, Target::label);
    private static final Map<String, Integer> OPSETS = Flags.byName(Converter.OPSETS, String::valueOf);
    private static final int USUAL_OPSET = Converter.OPSETS.getFirst();

    private static final Option TARGET = ChoiceOption.of(
            "target",
            "NAME",
            TARGETS.keySet(),
            "onnx; huggingface: an ONNX or GGUF model or a checkpoint of torch, DeepSpeed or Megatron as safetensors;"
                    + " gguf; dcp: torch's distributed checkpoint; deepspeed-universal: weights for"
                    + " load_universal_checkpoint; checkpoints: "
                    + String.join(", ", CheckpointFlags.TARGETS.keySet()) + " (must be given unless --into is)");
    private static final PathOption INTO = PathOption.read(
            "into",
            "FILE.onnx",
            "write this model with the checkpoint's weights, dequantised, in place of its constants of the same names");
    private static final Option RECIPE = ChoiceOption.of(
            "recipe",
            "NAME",
            CheckpointFlags.RECIPES.keySet(),
            "round weights once more that the target cannot hold as they are: " + Recipes.names(Recipes.CHECKPOINT)
                    + " (default: refuse them)");

    private static final Option OPSET = Flags.value(
            "opset",
            String.join("|", OPSETS.keySet()),
            "target onnx: version of the operators; attention is one operator in 23, several in 21 (default: "
                    + USUAL_OPSET + ")");
    private static final PathOption CONFIG = PathOption.read(
            "config",
            "FILE",
            "target huggingface: config.json of the model (default: what the graph tells; the rest is left to"
                    + " transformers' defaults)");

    private static final Map<String, GgufType> TYPES = Flags.byName(
            GgmlEncode.TYPES.stream().sorted().toList(), t -> t.name().toLowerCase(Locale.ROOT));
    private static final Option TYPE = ChoiceOption.of(
            "type",
            "NAME",
            TYPES.keySet(),
            "target gguf: type of the matrices: " + String.join(", ", TYPES.keySet())
                    + " (default: the checkpoint's own)");
    private static final Option NO_TOKENIZER =
            Flags.flag("no-tokenizer", "target gguf: leave out a tokenizer that llama.cpp does not split texts as");
    private static final Option DTYPE = Flags.value(
            "dtype",
            String.join("|", FloatName.types().keySet()),
            "of a GGUF file: type of all tensors but those in NVFP4 that keep it (default: bf16 where the file has it"
                    + " or is quantised, else the file's own)");

    @Override
    public String name() {
        return "convert";
    }

    @Override
    public String summary() {
        return "Bring a checkpoint into another layout, saying which values change, or a model to ONNX and back.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(
                Flags.OUTPUT,
                TARGET,
                RECIPE,
                INTO,
                OPSET,
                CONFIG,
                TYPE,
                NO_TOKENIZER,
                DTYPE,
                CheckpointFlags.SCALE_FORMAT,
                CheckpointFlags.SCALE_TYPE,
                CheckpointFlags.EXACT_ONLY,
                Flags.THREADS,
                Flags.FORCE,
                Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet convert DeepSeek-V3 -o DeepSeek-V3-ct --target compressed-tensors --exact-only",
                "octet convert llama-fp8 -o llama-block --target fp8 --recipe fp8-block",
                "octet convert Qwen2-0.5B -o qwen2.onnx --target onnx --opset 23",
                "octet convert minilm.onnx -o MiniLM --target huggingface",
                "octet convert Llama-3.2-1B -o llama.gguf --target gguf --type q8_0",
                "octet convert llama-Q4_K_M.gguf -o Llama --target huggingface --dtype bf16",
                "octet convert pytorch_model.bin -o model.safetensors --target huggingface",
                "octet convert checkpoints/step-1000 -o Llama --target huggingface",
                "octet convert Llama-3.2-1B -o start --target dcp",
                "octet convert Llama-3.2-1B -o start --target deepspeed-universal",
                "octet convert llama-nvfp4.gguf -o Llama-NVFP4 --target modelopt",
                "octet convert bert-fp8 -o bert.onnx --into bert-fp32.onnx",
                "octet convert bert.onnx -o weights.safetensors");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        CheckpointFlags.refuseConsumer(arguments, TARGET);
        Optional<Target> target = arguments.has(TARGET)
                ? Optional.of(arguments.choice(TARGET, TARGETS, Target.Floats.ONNX))
                : Optional.empty();
        boolean back = target.equals(Optional.of(Target.Floats.HUGGINGFACE));
        if (!back) {
            arguments.refuse(
                    List.of(CONFIG), "is for --target huggingface", "leave it out, or add --target huggingface");
        }
        boolean gguf = target.isPresent() && target.get() instanceof Target.Gguf;
        if (!gguf) {
            arguments.refuse(List.of(TYPE, NO_TOKENIZER), "is for --target gguf", "leave it out, or add --target gguf");
        }
        Optional<Target.Checkpoint> kept =
                target.filter(Target.Checkpoint.class::isInstance).map(Target.Checkpoint.class::cast);
        boolean ofGguf = (back || kept.isPresent()) && GgufFile.isGguf(arguments.operand(0));
        if (!ofGguf) {
            arguments.refuse(List.of(DTYPE), "is for a GGUF file and --target huggingface or a layout", "leave it out");
        }
        if (gguf || ofGguf) {
            arguments.refuse(
                    List.of(
                            RECIPE,
                            INTO,
                            OPSET,
                            CONFIG,
                            CheckpointFlags.SCALE_FORMAT,
                            CheckpointFlags.SCALE_TYPE,
                            CheckpointFlags.EXACT_ONLY),
                    "has no meaning for GGUF",
                    "leave it out");
            return gguf ? toGguf(arguments, screen, output) : fromGguf(arguments, screen, output, kept);
        }
        GgufFile.requireOther(arguments.operand(0));
        if (target.isPresent() && target.get() instanceof Target.Training training) {
            arguments.refuse(
                    List.of(
                            RECIPE,
                            INTO,
                            OPSET,
                            CheckpointFlags.SCALE_FORMAT,
                            CheckpointFlags.SCALE_TYPE,
                            CheckpointFlags.EXACT_ONLY),
                    "has no meaning for --target " + training.label(),
                    "leave it out: weights are not rounded");
            return toTraining(arguments, screen, new Convert.ToTraining(arguments.operand(0), output, training));
        }
        if (target.isPresent() && target.get() instanceof Target.Floats) {
            arguments.refuse(
                    List.of(
                            RECIPE,
                            INTO,
                            CheckpointFlags.SCALE_FORMAT,
                            CheckpointFlags.SCALE_TYPE,
                            CheckpointFlags.EXACT_ONLY),
                    "has no meaning for --target onnx and huggingface",
                    "leave it out: they have the weights of the model as they are");
            if (back) {
                arguments.refuse(List.of(OPSET), "is for --target onnx", "leave it out");
                return toHuggingFace(arguments, screen, output);
            }
            return toOnnx(arguments, screen, output);
        }
        arguments.refuse(List.of(OPSET), "is for --target onnx", "leave it out, or add --target onnx");
        arguments.requireInputs();
        Path model = arguments.operand(0);
        if (Files.exists(model) && !Checkpoint.isCheckpoint(model)) {
            arguments.refuse(
                    List.of(TARGET, RECIPE, INTO),
                    "is for safetensors checkpoints",
                    "leave it out: the constants of " + model
                            + " are written as they are; --target onnx writes the graph");
            print(arguments, screen, Convert.run(new Convert.ToTensors(model, output), job(arguments)));
            return ExitCode.OK;
        }
        Optional<Path> into = arguments.path(INTO);
        if (into.isPresent()) {
            if (arguments.has(TARGET) || arguments.has(RECIPE)) {
                throw arguments.usage("--into writes floats", "leave out --target and --recipe");
            }
            print(arguments, screen, Convert.run(new Convert.IntoGraph(model, into.get(), output), job(arguments)));
            return ExitCode.OK;
        }
        if (!(target.orElse(null) instanceof Target.Checkpoint layout)) {
            throw arguments.usage("missing --target NAME", "one of " + String.join(", ", TARGETS.keySet()));
        }
        return toLayout(arguments, screen, Convert.ToLayout.of(model, output, layout));
    }

    private static Job job(Arguments arguments) {
        return arguments.job(TaskListener.NONE);
    }

    private static ExitCode toLayout(Arguments arguments, Screen screen, Convert.ToLayout of) throws IOException {
        Convert.ToLayout request = of.withLayout(CheckpointFlags.layoutOptions(arguments));
        if (arguments.has(RECIPE)) {
            request = request.withRecipe(arguments.choice(
                    RECIPE,
                    CheckpointFlags.RECIPES,
                    CheckpointFlags.RECIPES.values().iterator().next()));
        }
        if (arguments.has(CheckpointFlags.EXACT_ONLY)) {
            request = request.exactly();
        }
        try (Progress progress = arguments.progress(screen)) {
            CheckpointOutcome outcome = Convert.run(request, arguments.job(progress));
            progress.end();
            new CheckpointPage(outcome).print(arguments, screen);
        }
        return ExitCode.OK;
    }

    private static ExitCode toTraining(Arguments arguments, Screen screen, Convert.ToTraining request)
            throws IOException {
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            Convert.TrainingResult result = Convert.run(request, arguments.job(progress));
            progress.end();
            screen.answer(arguments, result, () -> {
                Table table = written(arguments, result.model(), result.output())
                        .row("tensors", result.tensors() + ", " + Quantity.bytes(result.bytes()));
                result.notes().forEach(n -> table.row("note", n));
                return table.text(0);
            });
        }
        return ExitCode.OK;
    }

    private static ExitCode toSafetensors(Arguments arguments, Screen screen, Convert.ToSafetensors request)
            throws IOException {
        try (Progress progress = arguments.progress(screen)) {
            CheckpointOutcome outcome = Convert.run(request, arguments.job(progress));
            progress.end();
            new CheckpointPage(outcome).print(arguments, screen);
        }
        return ExitCode.OK;
    }

    private static ExitCode toOnnx(Arguments arguments, Screen screen, Path output) throws IOException {
        int opset = arguments.choice(OPSET, OPSETS, USUAL_OPSET);
        arguments.requireInputs();
        Convert.OnnxResult result =
                Convert.run(new Convert.ToOnnx(arguments.operand(0), output, opset), job(arguments));
        screen.answer(
                arguments,
                result,
                () -> written(arguments, result.model(), String.join(", ", result.files()))
                        .row("opset", result.opset())
                        .row("nodes", result.nodes())
                        .row("constants", result.constants() + ", " + Quantity.bytes(result.constantBytes()))
                        .text(0));
        return ExitCode.OK;
    }

    private static ExitCode toHuggingFace(Arguments arguments, Screen screen, Path output) throws IOException {
        arguments.requireInputs();
        if (Files.exists(arguments.operand(0)) && Checkpoint.isCheckpoint(arguments.operand(0))) {
            arguments.refuse(
                    List.of(CONFIG), "is for ONNX models", "put the model's config.json in the checkpoint's folder");
            return toSafetensors(arguments, screen, new Convert.ToSafetensors(arguments.operand(0), output));
        }
        Convert.HuggingFaceResult result = Convert.run(
                new Convert.ToHuggingFace(arguments.operand(0), output, arguments.path(CONFIG)), job(arguments));
        screen.answer(arguments, result, () -> page(arguments, result));
        return ExitCode.OK;
    }

    private static ExitCode toGguf(Arguments arguments, Screen screen, Path output) throws IOException {
        arguments.requireInputs();
        Convert.ToGguf request = Convert.ToGguf.of(arguments.operand(0), output);
        if (arguments.has(TYPE)) {
            request = request.withType(arguments.choice(TYPE, TYPES, GgufType.BF16));
        }
        if (arguments.has(NO_TOKENIZER)) {
            request = request.withoutTokenizer();
        }
        Convert.GgufResult result = Convert.run(request, job(arguments));
        screen.answer(arguments, result, () -> page(arguments, result));
        return ExitCode.OK;
    }

    private static ExitCode fromGguf(
            Arguments arguments, Screen screen, Path output, Optional<Target.Checkpoint> layout) throws IOException {
        Convert.FromGguf request = Convert.FromGguf.of(arguments.operand(0), output);
        if (layout.isPresent()) {
            request = request.inLayout(layout.get());
        }
        if (arguments.has(DTYPE)) {
            request = request.withType(arguments.choice(DTYPE, FloatName.types(), DType.BF16));
        }
        Convert.GgufResult result = Convert.run(request, job(arguments));
        screen.answer(arguments, result, () -> page(arguments, result));
        return ExitCode.OK;
    }

    private static String page(Arguments arguments, Convert.GgufResult result) {
        Table table = written(arguments, result.model(), result.output())
                .row("architecture", result.architecture())
                .row("tensors", result.tensors() + " in " + result.type() + ", " + Quantity.bytes(result.bytes()))
                .row("tokenizer", result.tokenizer() ? "included" : "none");
        result.notes().forEach(n -> table.row("note", n));
        return table.text(0);
    }

    private static String page(Arguments arguments, Convert.HuggingFaceResult result) {
        Table table = written(arguments, result.model(), result.output())
                .row("architecture", result.architecture())
                .row("tensors", result.tensors() + ", " + Quantity.bytes(result.bytes()))
                .row("proof", String.format("outputs differ by %.1e of the largest number", result.error()));
        if (!result.notInFile().isEmpty()) {
            table.row("not in the file", String.join(", ", result.notInFile()) + " (transformers' defaults)");
        }
        if (!result.absentTensors().isEmpty()) {
            table.row("without", String.join(", ", result.absentTensors()) + " (transformers makes them anew)");
        }
        return table.text(0);
    }

    private static void print(Arguments arguments, Screen screen, Convert.WeightsResult result) {
        screen.answer(arguments, result, () -> page(arguments, result));
    }

    private static String page(Arguments arguments, Convert.WeightsResult result) {
        Table table = written(arguments, result.model(), result.output()).row("tensors", result.tensors());
        if (!result.unmatched().isEmpty()) {
            table.row(
                    "without a match",
                    result.unmatched().size() + ", as " + result.unmatched().getFirst());
        }
        return table.text(0);
    }

    private static Table written(Arguments arguments, String model, String output) {
        return new Table().row("model", model).row(arguments.has(Flags.DRY_RUN) ? "would write" : "written", output);
    }
}
