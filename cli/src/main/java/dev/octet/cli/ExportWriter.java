package dev.octet.cli;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.trained.HuggingFaceFolder;
import dev.octet.converter.trained.ModuleState;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
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
            case ExportTarget.Onnx(OnnxTarget runtime) -> quantized(runtime);
            case ExportTarget.Checkpoint(Layout layout) -> quantized(layout);
            case ExportTarget.Floats floats -> plain(floats);
        };
    }

    private Exported quantized(OnnxTarget runtime) throws IOException {
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
        if (recipe.input() != null || options.recipe().isPresent()) {
            return List.of();
        }
        PrecisionPolicy policy = run.policy();
        return List.of("weights only: " + run.scales().reason().orElseGet(() -> "the run was in " + policy.name()));
    }

    private Exported quantized(Layout layout) throws IOException {
        Recipe recipe = options.recipe().orElseGet(() -> run.scales().nearest(layout));
        List<String> notes = new ArrayList<>();
        DType type = folderType();
        ObjectNode config = config(notes);
        if (!options.writes()) {
            return new Exported(output, target, type, recipe, 0, List.of(), List.of());
        }
        TrainedModel.Checkpointed done = model.quantized(
                recipe,
                layout,
                config,
                type,
                output,
                new StreamOptions(
                        options.threads(),
                        options.force(),
                        StreamOptions.defaults().progress()));
        notes.addAll(done.plan().notes());
        List<Exported.Kept> kept = new ArrayList<>();
        done.reasons().forEach((weight, reason) -> kept.add(new Exported.Kept(weight, reason)));
        int fp8 = (int)
                done.plan().decisions().stream().filter(d -> d.quantized()).count();
        return new Exported(output, target, type, recipe, fp8, kept, notes);
    }

    /** Of what is not quantised in a folder: as asked for, else that of the folder that the run was started with. */
    private DType folderType() throws IOException {
        if (options.type().isPresent() || run.huggingFace().isEmpty()) {
            return options.type().orElse(DType.F32);
        }
        return model.huggingFace(Optional.empty(), Optional.empty(), false).type();
    }

    /** The configuration beside the model, or above it where exporters put the model into a folder of its own. */
    private ObjectNode config(List<String> notes) throws IOException {
        Optional<ModelSource.HuggingFace> origin = run.huggingFace();
        if (origin.isPresent()) {
            ObjectNode own = HuggingFaceFolder.unquantised(origin.get().config());
            options.type().ifPresent(t -> HuggingFaceFolder.setType(own, t));
            return own;
        }
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
        if (floats == ExportTarget.Floats.HUGGINGFACE) {
            return huggingFace();
        }
        DType type = options.type().orElse(DType.F32);
        List<ModuleState> states = floats == ExportTarget.Floats.TRANSFORMER_ENGINE ? states() : List.of();
        if (options.writes()) {
            Model plain = floats == ExportTarget.Floats.ONNX
                    ? Model.of(model.plain(type))
                    : Model.of(model.withState(type, states), Map.of("format", "pt"));
            ModelFile.save(plain, output);
        }
        return new Exported(output, target, type, null, states.size(), List.of(), List.of());
    }

    private Exported huggingFace() throws IOException {
        HuggingFaceFolder.Written written =
                model.huggingFace(options.type(), Optional.of(output).filter(o -> options.writes()), options.force());
        List<String> notes = written.dropped().isEmpty()
                ? List.of()
                : List.of("left out, as copies of tied weights: " + String.join(", ", written.dropped()));
        return new Exported(output, target, written.type(), null, 0, List.of(), notes);
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
        return new Exported(output, target, DType.F32, recipe, fp8Layers, kept, notes);
    }
}
