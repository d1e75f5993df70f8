package dev.octet.pipeline;

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
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.run.QatExport;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.adapter.SavedAdapter;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/** Writes the model that a run has made, for each target. */
final class ExportWriter {
    private final TrainedRun run;
    private final TrainedModel model;
    private final Optional<QatExport> qat;
    private final Export.Request request;
    private final Mode mode;
    private final Job job;

    /** Whether a file is written. */
    enum Mode {
        /** It is. */
        WRITE,
        /** All is decided as if it were: to prove one that was written before. */
        DECIDE
    }

    /** @param qat what a run in mode {@code qat} trained; empty for runs in other modes */
    ExportWriter(
            TrainedRun run, TrainedModel model, Optional<QatExport> qat, Export.Request request, Mode mode, Job job) {
        this.run = run;
        this.model = model;
        this.qat = qat;
        this.request = request;
        this.mode = mode;
        this.job = job;
    }

    private boolean writes() {
        return mode == Mode.WRITE;
    }

    Exported write() throws IOException {
        return switch (request.target()) {
            case Target.Graph(OnnxTarget runtime) -> quantized(runtime);
            case Target.Checkpoint(Layout layout) -> quantized(layout);
            case Target.Floats floats -> plain(floats);
            case Target.Gguf _, Target.Training _ ->
                throw new UnsupportedModelException(
                        "a run is not exported to " + request.target().label() + " in one step",
                        run.folder().toString(),
                        "export it with --target huggingface, then `octet convert --target "
                                + request.target().label() + "`");
        };
    }

    private Exported quantized(OnnxTarget runtime) throws IOException {
        Recipe recipe = recipe(qat.map(q -> q.recipe(runtime)), run.scales()::nearest);
        if (qat.isEmpty() && recipe.needsStatistics() && !run.scales().hasInputs()) {
            throw new UnsupportedModelException(
                    "the run observed no static scale of any input, which " + recipe.name() + " needs",
                    run.folder().toString(),
                    "leave --recipe out for weights alone, or export with --target onnx and use `octet quantize`");
        }
        Conversion conversion = model.quantized(
                recipe,
                ConversionOptions.defaults().withTarget(runtime).withThreads(job.threads()),
                Map.of("octet.run.step", Long.toString(run.step())));
        if (writes()) {
            conversion.save(request.output());
        }
        List<Export.Kept> kept = conversion.plan().kept().stream()
                .filter(k -> k.kind() == LayerKind.LINEAR)
                .map(k -> new Export.Kept(k.node(), k.reason()))
                .toList();
        int converted = conversion.plan().converted(LayerKind.LINEAR).size();
        return exported(recipe, converted, kept, weightOnlyNote(recipe));
    }

    /** What was asked for, or what the run has: codes that were trained are those of one recipe. */
    private Recipe recipe(Optional<Recipe> trained, Supplier<Recipe> nearest) {
        Optional<Recipe> asked = request.recipe();
        if (trained.isPresent()
                && asked.isPresent()
                && !asked.get().ownName().equals(trained.get().ownName())) {
            throw new InvalidOptionException(
                    "the run trained the codes of recipe " + trained.get().name() + ", not of "
                            + asked.get().name(),
                    run.folder().toString(),
                    "leave --recipe out, or export with --target onnx and use `octet quantize`");
        }
        return trained.or(() -> asked).orElseGet(nearest);
    }

    private List<String> weightOnlyNote(Recipe recipe) {
        if (qat.isPresent() || recipe.input() != null || request.recipe().isPresent()) {
            return List.of();
        }
        PrecisionPolicy policy = run.policy();
        return List.of("weights only: " + run.scales().reason().orElseGet(() -> "the run was in " + policy.name()));
    }

    private Exported quantized(Layout layout) throws IOException {
        Recipe recipe =
                recipe(qat.map(q -> q.recipe(layout)), () -> run.scales().nearest(layout));
        List<String> notes = new ArrayList<>();
        DType type = folderType();
        ObjectNode config = config(notes);
        if (!writes()) {
            return new Exported(request.output(), request.target(), type, recipe, 0, List.of(), List.of());
        }
        TrainedModel.Checkpointed done = model.quantized(
                recipe,
                layout,
                config,
                type,
                request.output(),
                new StreamOptions(
                        job.threads(), job.overwrite(), StreamOptions.defaults().progress()));
        notes.addAll(done.plan().notes());
        List<Export.Kept> kept = new ArrayList<>();
        done.reasons().forEach((weight, reason) -> kept.add(new Export.Kept(weight, reason)));
        int fp8 = (int)
                done.plan().decisions().stream().filter(d -> d.quantized()).count();
        return new Exported(request.output(), request.target(), type, recipe, fp8, kept, notes);
    }

    /** Of what is not quantised in a folder: as asked for, else that of the folder that the run was started with. */
    private DType folderType() throws IOException {
        if (request.type().isPresent() || run.huggingFace().isEmpty()) {
            return request.type().orElse(DType.F32);
        }
        return model.huggingFace(Optional.empty(), Optional.empty(), false).type();
    }

    /** The configuration next to the model, or above it where exporters put the model into a folder of its own. */
    private ObjectNode config(List<String> notes) throws IOException {
        Optional<ModelSource.HuggingFace> origin = run.huggingFace();
        if (origin.isPresent()) {
            ObjectNode own = HuggingFaceFolder.unquantised(origin.get().config());
            request.type().ifPresent(t -> HuggingFaceFolder.setType(own, t));
            return own;
        }
        Path beside = RunFolder.parent(run.model());
        Optional<ObjectNode> found = ModelConfig.read(beside);
        if (found.isEmpty() && beside.endsWith("onnx")) {
            found = ModelConfig.read(RunFolder.parent(beside));
        }
        if (found.isEmpty()) {
            notes.add("there is no config.json next to the model: the one written says how weights are quantised and"
                    + " nothing of the architecture");
        }
        return found.orElseGet(() -> new ObjectNode(JsonNodeFactory.instance));
    }

    private Exported plain(Target.Floats floats) throws IOException {
        if (floats == Target.Floats.HUGGINGFACE) {
            return huggingFace();
        }
        if (floats == Target.Floats.PEFT) {
            return peft();
        }
        DType type = request.type().orElse(DType.F32);
        List<ModuleState> states = floats == Target.Floats.TRANSFORMER_ENGINE ? states() : List.of();
        if (writes()) {
            Model plain = floats == Target.Floats.ONNX
                    ? Model.of(model.plain(type))
                    : Model.of(model.withState(type, states), Map.of("format", "pt"));
            ModelFile.save(plain, request.output());
        }
        return new Exported(request.output(), request.target(), type, null, states.size(), List.of(), List.of());
    }

    private Exported huggingFace() throws IOException {
        HuggingFaceFolder.Written written =
                model.huggingFace(request.type(), Optional.of(request.output()).filter(o -> writes()), job.overwrite());
        List<String> notes = written.dropped().isEmpty()
                ? List.of()
                : List.of("left out, as copies of tied weights: " + String.join(", ", written.dropped()));
        return new Exported(request.output(), request.target(), written.type(), null, 0, List.of(), notes);
    }

    private Exported peft() throws IOException {
        SavedAdapter adapter = run.adapter(job)
                .orElseThrow(() -> new InvalidOptionException(
                        "the run trained the model itself, and no adapter",
                        run.folder().toString(),
                        "export it with --target huggingface or onnx"));
        if (writes()) {
            PeftAdapter.write(request.output(), adapter.config(), adapter.tensors(run.parameters()));
        }
        return new Exported(request.output(), request.target(), DType.F32, null, 0, List.of(), List.of());
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

    private Exported exported(Recipe recipe, int fp8Layers, List<Export.Kept> kept, List<String> notes) {
        return new Exported(request.output(), request.target(), DType.F32, recipe, fp8Layers, kept, notes);
    }
}
