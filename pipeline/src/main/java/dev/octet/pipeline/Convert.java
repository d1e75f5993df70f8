package dev.octet.pipeline;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.RestoredCheckpoint;
import dev.octet.converter.checkpoint.GraphWeights;
import dev.octet.converter.checkpoint.TrainingFolder;
import dev.octet.converter.gguf.GgufExport;
import dev.octet.converter.gguf.GgufImport;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.model.Model;
import dev.octet.formats.onnx.OnnxWriteOptions;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.ggml.GgmlEncode;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * {@code octet convert}: a checkpoint in another layout, a model as ONNX or GGUF, an ONNX model as the checkpoint it was exported from, weights into
 * a graph and out of it.
 *
 * <pre>{@code
 * Convert.run(Convert.ToOnnx.of(folder, Path.of("model.onnx")), Job.defaults());
 * }</pre>
 */
public final class Convert {
    private Convert() {}

    /** Whether weights may be rounded. */
    public enum Exactness {
        /** They may where the layout has no other way. */
        ROUNDING,
        /** Whatever would change a value is refused. */
        EXACT_ONLY
    }

    /**
     * A quantised checkpoint in another layout.
     *
     * @param model a safetensors file, an index or a folder
     * @param output a folder to make, or a file for a checkpoint of one
     * @param layout choices within the layout
     * @param recipe how weights are rounded once more that the layout cannot hold as they are; empty to refuse them
     */
    public record ToLayout(
            Path model,
            Path output,
            Target.Checkpoint target,
            LayoutOptions layout,
            Optional<Recipe> recipe,
            Exactness exactness) {
        /** As the layout's readers want it, no weight rounded by another recipe. */
        public static ToLayout of(Path model, Path output, Target.Checkpoint target) {
            return new ToLayout(model, output, target, LayoutOptions.defaults(), Optional.empty(), Exactness.ROUNDING);
        }

        /** The same with other choices within the layout. */
        public ToLayout withLayout(LayoutOptions newLayout) {
            return new ToLayout(model, output, target, newLayout, recipe, exactness);
        }

        /** The same with a recipe for weights that the layout cannot hold. */
        public ToLayout withRecipe(Recipe newRecipe) {
            return new ToLayout(model, output, target, layout, Optional.of(newRecipe), exactness);
        }

        /** The same, refusing whatever would change a value. */
        public ToLayout exactly() {
            return new ToLayout(model, output, target, layout, recipe, Exactness.EXACT_ONLY);
        }
    }

    /**
     * A graph in ONNX's own operators.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param output an ONNX file; data that do not fit in it are put next to it
     * @param opset one of {@link Converter#OPSETS}
     */
    public record ToOnnx(Path model, Path output, int opset) {
        /** In the usual opset. */
        public static ToOnnx of(Path model, Path output) {
            return new ToOnnx(model, output, Converter.OPSETS.getFirst());
        }

        /** In another of {@link Converter#OPSETS}. */
        public ToOnnx withOpset(int newOpset) {
            return new ToOnnx(model, output, newOpset);
        }
    }

    /**
     * An ONNX model as the Hugging Face checkpoint it was exported from.
     *
     * @param output a folder to make
     * @param config {@code config.json} of the model, or its folder; empty for what the graph says
     */
    public record ToHuggingFace(Path model, Path output, Optional<Path> config) {
        /** With the configuration that the graph tells. */
        public static ToHuggingFace of(Path model, Path output) {
            return new ToHuggingFace(model, output, Optional.empty());
        }

        /** With the model's own configuration. */
        public ToHuggingFace withConfig(Path file) {
            return new ToHuggingFace(model, output, Optional.of(file));
        }
    }

    /**
     * A checkpoint of torch, DeepSpeed or Megatron as a folder of safetensors: names as in Hugging Face folders, bytes as they are.
     *
     * @param output a folder to make, or a file for a checkpoint of one
     */
    public record ToSafetensors(Path model, Path output) {}

    /**
     * A checkpoint as what programs that train start from: torch's distributed checkpoint with bytes as they are, or DeepSpeed's universal one with parameters in F32.
     *
     * @param output a folder to make
     */
    public record ToTraining(Path model, Path output, Target.Training target) {}

    /**
     * What was written for programs that train.
     *
     * @param bytes of all tensors
     * @param notes what a user should know
     */
    public record TrainingResult(String model, String output, int tensors, long bytes, List<String> notes) {}

    /**
     * A checkpoint as a GGUF file.
     *
     * @param model a checkpoint of a known decoder with its {@code config.json}, plain or quantised in any layout
     * @param output a file
     * @param type of its matrices, one of {@link GgmlEncode#TYPES}; empty for the type of the checkpoint's own floats, and NVFP4 for weights that are
     *     in it, bit by bit
     */
    public record ToGguf(Path model, Path output, Optional<GgufType> type, GgufExport.Tokenizer tokenizer) {
        /** In the checkpoint's own type, with its tokenizer. */
        public static ToGguf of(Path model, Path output) {
            return new ToGguf(model, output, Optional.empty(), GgufExport.Tokenizer.INCLUDED);
        }

        /** With matrices of another type. */
        public ToGguf withType(GgufType newType) {
            return new ToGguf(model, output, Optional.of(newType), tokenizer);
        }

        /** Without the tokenizer. */
        public ToGguf withoutTokenizer() {
            return new ToGguf(model, output, type, GgufExport.Tokenizer.LEFT_OUT);
        }
    }

    /**
     * A GGUF file as a Hugging Face folder.
     *
     * @param output a folder to make
     * @param type of its tensors, F32, BF16 or F16; empty for BF16 where the file has it or is quantised, else the file's own
     * @param layout in which matrices in NVFP4 keep their codes and scales; empty for floats only
     */
    public record FromGguf(Path model, Path output, Optional<DType> type, Optional<Target.Checkpoint> layout) {
        /** Floats in the usual type. */
        public static FromGguf of(Path model, Path output) {
            return new FromGguf(model, output, Optional.empty(), Optional.empty());
        }

        /** In another type. */
        public FromGguf withType(DType newType) {
            return new FromGguf(model, output, Optional.of(newType), layout);
        }

        /** With matrices in NVFP4 as they are. */
        public FromGguf inLayout(Target.Checkpoint target) {
            return new FromGguf(model, output, type, Optional.of(target));
        }
    }

    /**
     * A graph with the weights of a checkpoint, dequantised, in place of its constants of the same names.
     *
     * @param model the checkpoint
     * @param graph an ONNX file
     * @param output an ONNX file
     */
    public record IntoGraph(Path model, Path graph, Path output) {}

    /**
     * The constants of an ONNX model, bytes and names as they are.
     *
     * @param output a safetensors file
     */
    public record ToTensors(Path model, Path output) {}

    /**
     * What became of a graph in ONNX's own operators.
     *
     * @param files that were written: the model, and its data where they lie in a file of their own
     * @param constantBytes of all constants
     */
    public record OnnxResult(
            String model, List<String> files, int opset, int nodes, int constants, long constantBytes) {}

    /**
     * What became of a checkpoint made from an ONNX model.
     *
     * @param architecture class of transformers
     * @param error largest difference from the ONNX model's outputs, relative to the largest number in them
     * @param notInFile keys of the configuration that the graph does not tell
     * @param absentTensors tensors that such checkpoints may have and this one has not
     */
    public record HuggingFaceResult(
            String model,
            String output,
            String architecture,
            int tensors,
            long bytes,
            double error,
            List<String> notInFile,
            List<String> absentTensors) {}

    /**
     * What went into a graph or out of it.
     *
     * @param unmatched weights that the graph has no constant for
     */
    public record WeightsResult(String model, String output, int tensors, List<String> unmatched) {}

    /**
     * What became of a GGUF file, or of a checkpoint that became one.
     *
     * @param architecture {@code general.architecture}
     * @param type of the matrices that were written
     * @param tokenizer whether there is one
     * @param notes what a user should know
     */
    public record GgufResult(
            String model,
            String output,
            String architecture,
            String type,
            int tensors,
            long bytes,
            boolean tokenizer,
            List<String> notes) {}

    /**
     * Brings a checkpoint into another layout.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint is malformed, or the layout cannot hold it
     * @throws IOException when reading or writing fails; finished files stay and the same call continues after them
     */
    public static CheckpointOutcome run(ToLayout request, Job job) throws IOException {
        try (CheckpointGoal goal = CheckpointGoal.of(request)) {
            return new CheckpointWork(goal, request.output(), job).run(Optional.empty());
        }
    }

    /**
     * Writes a checkpoint in another format as safetensors.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint is malformed, holds what Octet does not read, or is in safetensors already
     * @throws IOException when reading or writing fails; finished files stay and the same call continues after them
     */
    public static CheckpointOutcome run(ToSafetensors request, Job job) throws IOException {
        try (CheckpointGoal goal = CheckpointGoal.of(request, job)) {
            return new CheckpointWork(goal, request.output(), job).run(Optional.empty());
        }
    }

    /**
     * Writes a checkpoint for programs that train.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint is malformed, or holds a type that the target has not
     * @throws IOException when reading or writing fails
     */
    public static TrainingResult run(ToTraining request, Job job) throws IOException {
        job.requireCheckpoint(request.model());
        TrainingFolder.Form form = request.target().form();
        try (CheckpointConverter converter = CheckpointConverter.open(request.model())) {
            Checkpoint checkpoint = converter.checkpoint();
            if (form == TrainingFolder.Form.DEEPSPEED_UNIVERSAL
                    && !converter.stored().weights().isEmpty()) {
                throw new UnsupportedModelException(
                        "the weights are quantised, and DeepSpeed trains floats",
                        request.model().toString(),
                        "make floats of them first: octet dequantize " + request.model());
            }
            List<TensorSpec> written = TrainingFolder.written(checkpoint, form);
            if (!job.dryRun()) {
                TrainingFolder.write(checkpoint, request.output(), form, job.streaming("copying"));
            }
            List<String> notes = new ArrayList<>(checkpoint.notes());
            int left = checkpoint.tensors().size() - written.size();
            if (left > 0) {
                notes.add(left + (left == 1 ? " tensor of integers is" : " tensors of integers are")
                        + " left out: no parameters");
            }
            if (form == TrainingFolder.Form.DEEPSPEED_UNIVERSAL) {
                notes.add("it has no state of an optimizer and no schedule: load_checkpoint(DIR,"
                        + " load_optimizer_states=False, load_lr_scheduler_states=False)");
            }
            return new TrainingResult(
                    request.model().toString(),
                    request.output().toString(),
                    written.size(),
                    written.stream().mapToLong(TensorSpec::byteSize).sum(),
                    notes);
        }
    }

    /**
     * Writes a model as a standard ONNX graph.
     *
     * @throws dev.octet.formats.error.OctetException when the model has no graph, or one that cannot be written so
     * @throws IOException when reading or writing fails
     */
    public static OnnxResult run(ToOnnx request, Job job) throws IOException {
        Path output = request.output();
        job.refuseExisting(output);
        job.requireOnnxName(output);
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter()) {
            GraphModel model = converter.standard(request.opset());
            if (!job.dryRun()) {
                ModelFile.save(Model.of(model), output);
            }
            long bytes = 0;
            for (Initializer i : model.graph().initializers().values()) {
                bytes += i.tensor().map(t -> t.bytes().byteSize()).orElse(0L);
            }
            List<String> files = new ArrayList<>(List.of(output.toString()));
            // a model that is smaller than its constants has them next to it
            if (!job.dryRun() && Files.size(output) < bytes) {
                files.add(OnnxWriteOptions.defaults().dataFile(output).toString());
            }
            return new OnnxResult(
                    request.model().toString(),
                    List.copyOf(files),
                    (int) model.opset(),
                    model.graph().nodes().size(),
                    model.graph().initializers().size(),
                    bytes);
        }
    }

    /**
     * Writes an ONNX model as the checkpoint it was exported from, proved by running both.
     *
     * @throws dev.octet.formats.error.OctetException when no known architecture has this graph, or the outputs differ
     * @throws IOException when reading or writing fails
     */
    public static HuggingFaceResult run(ToHuggingFace request, Job job) throws IOException {
        Path model = request.model();
        Path output = request.output();
        job.refuseExisting(output);
        if (Files.exists(output) && !Files.isDirectory(output)) {
            throw job.invalid("'" + output + "' is a file", "give the name of a folder");
        }
        if (Files.exists(model) && Checkpoint.isCheckpoint(model)) {
            throw job.invalid("'" + model + "' is a checkpoint already", "give an .onnx file");
        }
        Optional<ObjectNode> config =
                request.config().isPresent() ? config(request.config().get()) : Optional.empty();
        try (ModelFile file = ModelFile.open(model);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, config)) {
            if (!job.dryRun()) {
                restored.save(output);
            }
            return new HuggingFaceResult(
                    model.toString(),
                    output.toString(),
                    restored.modelClass(),
                    restored.tensors().size(),
                    restored.tensors().values().stream()
                            .mapToLong(t -> t.spec().byteSize())
                            .sum(),
                    restored.error(),
                    restored.unseen(),
                    restored.absent());
        }
    }

    private static Optional<ObjectNode> config(Path given) throws IOException {
        Path file = given.toAbsolutePath();
        Optional<ObjectNode> config = Files.isDirectory(file)
                ? ModelConfig.read(file)
                : ModelConfig.read(
                        Objects.requireNonNull(file.getParent()),
                        Objects.requireNonNull(file.getFileName()).toString());
        if (config.isEmpty()) {
            throw new NoSuchFileException(given.toString());
        }
        return config;
    }

    /**
     * Writes a checkpoint as a GGUF file.
     *
     * @throws dev.octet.formats.error.OctetException when llama.cpp has no such model, or would compute or tokenise otherwise
     * @throws IOException when reading or writing fails; nothing half-written is left
     */
    public static GgufResult run(ToGguf request, Job job) throws IOException {
        Path output = request.output();
        job.refuseExisting(output);
        if (Files.isDirectory(output)) {
            throw job.invalid(
                    "'" + output + "' is a folder, and a GGUF model is a file", "give a name ending in .gguf");
        }
        try (CheckpointConverter converter = CheckpointConverter.open(request.model())) {
            GgufType type = request.type().orElseGet(() -> ownType(converter.checkpoint()));
            GgufExport export = request.type().isPresent()
                    ? GgufExport.of(converter.checkpoint(), converter.stored(), type)
                    : GgufExport.of(converter.checkpoint(), converter.stored(), type, GgufExport.Nvfp4.KEPT);
            GgufExport.Result done = job.dryRun()
                    ? export.plan(request.tokenizer())
                    : export.write(output, request.tokenizer(), job.streaming("convert"));
            return new GgufResult(
                    request.model().toString(),
                    output.toString(),
                    done.architecture(),
                    type.name(),
                    done.tensors(),
                    done.bytes(),
                    done.tokenizer(),
                    done.notes());
        }
    }

    private static GgufType ownType(Checkpoint checkpoint) {
        Map<DType, Long> bytes = new EnumMap<>(DType.class);
        checkpoint
                .tensors()
                .values()
                .forEach(t -> bytes.merge(t.spec().dtype(), t.spec().byteSize(), Long::sum));
        return ownType(bytes);
    }

    /** The type of most bytes of plain floats, BF16 where there are none; of as many bytes the one that loses least of the other: F32, then BF16, which has its range. */
    static GgufType ownType(Map<DType, Long> bytes) {
        GgufType own = GgufType.BF16;
        long most = 0;
        for (DType type : List.of(DType.F32, DType.BF16, DType.F16)) {
            long of = bytes.getOrDefault(type, 0L);
            if (of > most) {
                most = of;
                own = type == DType.F32 ? GgufType.F32 : type == DType.F16 ? GgufType.F16 : GgufType.BF16;
            }
        }
        return own;
    }

    /**
     * Writes a GGUF file as a Hugging Face folder.
     *
     * @throws dev.octet.formats.error.OctetException when the file is malformed, or of an architecture or type that is not known
     * @throws IOException when reading or writing fails; nothing half-written is left
     */
    public static GgufResult run(FromGguf request, Job job) throws IOException {
        Path output = request.output();
        job.refuseExisting(output);
        job.requireFolderName(output);
        try (GgufImport file = GgufImport.open(request.model())) {
            DType type = request.type().orElseGet(file::usualType);
            GgufImport.Result done;
            if (request.layout().isPresent()) {
                Layout layout = request.layout().get().layout();
                done = job.dryRun() ? file.plan(type, layout) : file.write(output, type, layout);
            } else {
                done = job.dryRun() ? file.plan(type) : file.write(output, type);
            }
            return new GgufResult(
                    request.model().toString(),
                    output.toString(),
                    done.architecture(),
                    type.name(),
                    done.tensors(),
                    done.bytes(),
                    done.tokenizer(),
                    done.notes());
        }
    }

    /**
     * Writes a graph with other weights.
     *
     * @throws dev.octet.formats.error.OctetException when there is no graph, no name is in both, or a shape differs
     * @throws IOException when reading or writing fails
     */
    public static WeightsResult run(IntoGraph request, Job job) throws IOException {
        job.refuseExisting(request.output());
        try (CheckpointConverter converter = CheckpointConverter.open(request.model());
                ModelFile file = ModelFile.open(request.graph());
                Arena arena = Arena.ofShared()) {
            GraphModel graph = file.model()
                    .graph()
                    .orElseThrow(() -> job.invalid("--into has no graph: " + request.graph(), "give an .onnx file"));
            GraphWeights weights = converter.into(graph, arena);
            if (!job.dryRun()) {
                ModelFile.save(Model.of(weights.model()), request.output());
            }
            return new WeightsResult(
                    request.model().toString(),
                    request.output().toString(),
                    weights.replaced().size(),
                    weights.unmatched());
        }
    }

    /**
     * Writes the constants of an ONNX model as a safetensors file.
     *
     * @throws dev.octet.formats.error.OctetException when the model is malformed
     * @throws IOException when reading or writing fails
     */
    public static WeightsResult run(ToTensors request, Job job) throws IOException {
        job.refuseExisting(request.output());
        if (!request.output().toString().endsWith(".safetensors")) {
            throw job.invalid(
                    "the constants of an ONNX model are written to a safetensors file",
                    "end the name of --output in .safetensors");
        }
        try (ModelFile file = ModelFile.open(request.model())) {
            if (!job.dryRun()) {
                ModelFile.save(Model.of(file.model().tensors(), Map.of("format", "pt")), request.output());
            }
            return new WeightsResult(
                    request.model().toString(),
                    request.output().toString(),
                    file.model().tensors().size(),
                    List.of());
        }
    }
}
