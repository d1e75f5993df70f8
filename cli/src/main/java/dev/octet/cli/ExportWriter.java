package dev.octet.cli;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.checkpoint.RunOptions;
import dev.octet.converter.lower.Target;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.trained.ModuleState;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Writes the model that a run has made, for each target. */
final class ExportWriter {
    private final TrainedRun run;
    private final TrainedModel model;
    private final ExportTarget target;
    private final Path output;
    private final ExportOptions options;

    ExportWriter(TrainedRun run, TrainedModel model, ExportTarget target, Path output, ExportOptions options) {
        this.run = run;
        this.model = model;
        this.target = target;
        this.output = output;
        this.options = options;
    }

    Exported write() throws IOException {
        return switch (target) {
            case ExportTarget.Onnx(Target runtime) -> quantized(runtime);
            case ExportTarget.Checkpoint(Layout layout) -> quantized(layout);
            case ExportTarget.Floats floats -> plain(floats);
        };
    }

    private Exported quantized(Target runtime) throws IOException {
        Recipe recipe = options.recipe().orElseGet(run.scales()::nearest);
        if (recipe.needsStatistics() && !run.scales().hasInputs()) {
            throw new UnsupportedModelException(
                    "the run observed no static scale of any input, which " + recipe.name() + " needs",
                    run.folder().toString(),
                    "leave --recipe out for weights alone, or export with --target onnx and use `octet quantize`");
        }
        Conversion conversion = model.quantized(
                recipe,
                ConversionOptions.defaults().withTarget(runtime).withThreads(options.threads()),
                Map.of("octet.run.step", Long.toString(run.step())));
        if (options.writes()) {
            conversion.save(output);
        }
        List<Exported.Kept> kept = conversion.plan().kept().stream()
                .filter(k -> k.kind() == LayerKind.LINEAR)
                .map(k -> new Exported.Kept(k.node(), k.reason()))
                .toList();
        int converted = conversion.plan().converted(LayerKind.LINEAR).size();
        return exported(recipe, converted, kept, weightOnlyNote(recipe));
    }

    private List<String> weightOnlyNote(Recipe recipe) {
        if (recipe.fprop().input() != null || options.recipe().isPresent()) {
            return List.of();
        }
        PrecisionPolicy policy = run.policy();
        return List.of("weights only: " + run.scales().reason().orElseGet(() -> "the run was in " + policy.name()));
    }

    private Exported quantized(Layout layout) throws IOException {
        Recipe recipe = options.recipe().orElseGet(() -> run.scales().nearest(layout));
        List<String> notes = new ArrayList<>();
        ObjectNode config = config(notes);
        if (!options.writes()) {
            return exported(recipe, 0, List.of(), List.of());
        }
        TrainedModel.Checkpointed done = model.quantized(
                recipe,
                layout,
                config,
                options.type(),
                output,
                new RunOptions(
                        options.threads(),
                        options.force(),
                        RunOptions.defaults().progress()));
        notes.addAll(done.plan().notes());
        List<Exported.Kept> kept = new ArrayList<>();
        done.reasons().forEach((weight, reason) -> kept.add(new Exported.Kept(weight, reason)));
        int fp8 = (int)
                done.plan().decisions().stream().filter(d -> d.quantized()).count();
        return exported(recipe, fp8, kept, notes);
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

    private Exported plain(ExportTarget.Floats floats) throws IOException {
        List<ModuleState> states = floats == ExportTarget.Floats.TRANSFORMER_ENGINE ? states() : List.of();
        if (options.writes()) {
            Model plain = floats == ExportTarget.Floats.ONNX
                    ? Model.of(model.plain(options.type()))
                    : Model.of(model.withState(options.type(), states), Map.of("format", "pt"));
            ModelFile.save(plain, output);
        }
        return new Exported(output, target, options.type(), null, states.size(), List.of(), List.of());
    }

    private List<ModuleState> states() {
        List<ModuleState> states = run.scales().states(run.untrained().graph());
        if (states.isEmpty()) {
            throw new UnsupportedModelException(
                    "the run has no state that Transformer Engine would keep: only delayed scaling has",
                    run.folder().toString(),
                    "export with --target safetensors; recipes without state find their scales anew");
        }
        return states;
    }

    private Exported exported(Recipe recipe, int fp8Layers, List<Exported.Kept> kept, List<String> notes) {
        return new Exported(output, target, options.type(), recipe, fp8Layers, kept, notes);
    }
}
