package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.GraphWeights;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet convert MODEL -o OUT --target T}: a quantised checkpoint to another layout, a model to ONNX and back. */
final class ConvertCommand implements Command {
    private static final String ONNX = "onnx";
    /** Layouts of checkpoints; none for ONNX and back. */
    private static final Map<String, Optional<Layout>> TARGETS = targets();

    private static final Option TARGET = Flags.value(
            "target",
            "NAME",
            "onnx; huggingface: an ONNX model back to its checkpoint; checkpoints: "
                    + String.join(", ", CheckpointFlags.LAYOUTS.keySet()) + " (must be given unless --into is)");
    private static final PathOption INTO = PathOption.read(
            "into",
            "FILE.onnx",
            "write this model with the checkpoint's weights, dequantised, in place of its constants of the same names");
    private static final Option RECIPE = Flags.value(
            "recipe",
            "NAME",
            "round weights once more that the target cannot hold as they are: " + Recipes.names(Recipes.CHECKPOINT)
                    + " (default: refuse them)");

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
                ConvertToOnnx.OPSET,
                ConvertToHuggingFace.CONFIG,
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
                "octet convert bert-fp8 -o bert.onnx --into bert-fp32.onnx",
                "octet convert bert.onnx -o weights.safetensors");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        CheckpointJob job = CheckpointJob.of(arguments, screen);
        Optional<Layout> layout = arguments.choice(TARGET, TARGETS, Optional.empty());
        boolean back = arguments.text(TARGET).equals(Optional.of(ConvertToHuggingFace.TARGET));
        if (!back) {
            arguments.refuse(
                    List.of(ConvertToHuggingFace.CONFIG),
                    "is for --target huggingface",
                    "leave it out, or add --target huggingface");
        }
        if (arguments.has(TARGET) && layout.isEmpty()) {
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
                arguments.refuse(List.of(ConvertToOnnx.OPSET), "is for --target onnx", "leave it out");
                return ConvertToHuggingFace.run(arguments, screen);
            }
            return ConvertToOnnx.run(arguments, screen);
        }
        arguments.refuse(List.of(ConvertToOnnx.OPSET), "is for --target onnx", "leave it out, or add --target onnx");
        Path model = arguments.operand(0);
        if (Files.exists(model) && !Checkpoint.isCheckpoint(model)) {
            return weightsOfGraph(arguments, screen, model);
        }
        if (arguments.path(INTO).isPresent()) {
            return intoGraph(arguments, screen, arguments.path(INTO).get());
        }
        if (layout.isEmpty()) {
            throw arguments.usage("missing --target NAME", "one of " + String.join(", ", TARGETS.keySet()));
        }
        Optional<Recipe> recipe = arguments.text(RECIPE).isEmpty()
                ? Optional.empty()
                : Optional.of(arguments.choice(
                        RECIPE,
                        CheckpointFlags.RECIPES,
                        CheckpointFlags.RECIPES.values().iterator().next()));
        ConversionRequest goal =
                new ConversionRequest.Convert(layout.get(), CheckpointFlags.layoutOptions(arguments, false), recipe);
        try (CheckpointConverter converter = CheckpointConverter.open(model)) {
            return job.run(converter, goal);
        }
    }

    private static Map<String, Optional<Layout>> targets() {
        Map<String, Optional<Layout>> targets = new LinkedHashMap<>();
        targets.put(ONNX, Optional.empty());
        targets.put(ConvertToHuggingFace.TARGET, Optional.empty());
        CheckpointFlags.LAYOUTS.forEach((name, layout) -> targets.put(name, Optional.of(layout)));
        return targets;
    }

    /** The constants of an ONNX model as a safetensors file, bytes and names as they are. */
    private static ExitCode weightsOfGraph(Arguments arguments, Screen screen, Path model) throws IOException {
        arguments.refuse(
                List.of(TARGET, RECIPE, INTO),
                "is for safetensors checkpoints",
                "leave it out: the constants of " + model + " are written as they are; --target onnx writes the graph");
        Path output = arguments.outputFile();
        if (!output.toString().endsWith(".safetensors")) {
            throw arguments.usage(
                    "the constants of an ONNX model are written to a safetensors file",
                    "end the name of --output in .safetensors");
        }
        try (ModelFile file = ModelFile.open(model)) {
            if (!arguments.has(Flags.DRY_RUN)) {
                ModelFile.save(Model.of(file.model().tensors(), Map.of("format", "pt")), output);
            }
            print(
                    arguments,
                    screen,
                    new GraphAnswer(
                            model.toString(),
                            output.toString(),
                            file.model().tensors().size(),
                            List.of()));
        }
        return ExitCode.OK;
    }

    /** What is printed when weights go in or out of a graph. */
    record GraphAnswer(String model, String output, int tensors, List<String> unmatched) {}

    private static ExitCode intoGraph(Arguments arguments, Screen screen, Path graph) throws IOException {
        if (arguments.has(TARGET) || arguments.has(RECIPE)) {
            throw arguments.usage("--into writes floats", "leave out --target and --recipe");
        }
        Path output = arguments.outputFile();
        try (CheckpointConverter converter = CheckpointConverter.open(arguments.operand(0));
                ModelFile file = ModelFile.open(graph);
                Arena arena = Arena.ofShared()) {
            GraphModel model = file.model()
                    .graph()
                    .orElseThrow(() -> arguments.usage("--into has no graph: " + graph, "give an .onnx file"));
            GraphWeights weights = converter.into(model, arena);
            if (!arguments.has(Flags.DRY_RUN)) {
                ModelFile.save(Model.of(weights.model()), output);
            }
            print(
                    arguments,
                    screen,
                    new GraphAnswer(
                            arguments.operand(0).toString(),
                            output.toString(),
                            weights.replaced().size(),
                            weights.unmatched()));
        }
        return ExitCode.OK;
    }

    private static void print(Arguments arguments, Screen screen, GraphAnswer answer) {
        screen.answer(arguments, answer, () -> page(arguments, answer));
    }

    private static String page(Arguments arguments, GraphAnswer answer) {
        Table table = new Table()
                .row("model", answer.model())
                .row(arguments.has(Flags.DRY_RUN) ? "would write" : "written", answer.output())
                .row("tensors", answer.tensors());
        if (!answer.unmatched().isEmpty()) {
            table.row(
                    "without a match",
                    answer.unmatched().size() + ", as " + answer.unmatched().getFirst());
        }
        return table.text(0);
    }
}
