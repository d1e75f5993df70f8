package dev.octet.converter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.converter.hf.HfImporter;
import dev.octet.converter.inspect.QuantizedLayers;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.restore.MergedDecoder;
import dev.octet.converter.restore.NamedConstants;
import dev.octet.converter.restore.OnnxInputs;
import dev.octet.converter.restore.Restoration;
import dev.octet.converter.restore.RestorationProof;
import dev.octet.converter.restore.WidenedConstants;
import dev.octet.converter.restore.WindowReader;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * An ONNX model turned back into the Hugging Face checkpoint it was exported from: configuration, and tensors with the names and layout of
 * transformers. Octet infers the architecture from the structure of the graph and proves the result by running both.
 *
 * <p>Owns the memory of transposed tensors; the others are views of the model file, which must stay open until {@link #close()}.
 */
public final class RestoredCheckpoint implements AutoCloseable {
    /** ONNX Runtime does not broadcast the mask of opset 23's operator Attention. */
    private static final int PROOF_OPSET = 21;

    private final Restoration restoration;
    private final RestorationProof proof;
    private final Arena arena;

    private RestoredCheckpoint(Restoration restoration, RestorationProof proof, Arena arena) {
        this.restoration = restoration;
        this.proof = proof;
        this.arena = arena;
    }

    /**
     * Restores a model and proves it.
     *
     * @param file an ONNX model in floats
     * @param given its configuration if known; otherwise Octet takes the configuration that it stored in the file when it built the graph
     *     from a checkpoint, or infers one from the graph
     * @throws UnsupportedModelException when no known architecture fits (gives the reason of the nearest), or the results differ
     * @throws dev.octet.formats.error.MalformedModelException when the configuration lacks keys
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime is not there for the proof
     * @throws IOException when temporary files of the proof cannot be written
     */
    public static RestoredCheckpoint of(ModelFile file, Optional<ObjectNode> given) throws IOException {
        String where = file.path().toString();
        GraphModel source = file.model()
                .graph()
                .orElseThrow(() -> new UnsupportedModelException(
                        "the model has tensors but no graph", where, "give an .onnx file"));
        Arena arena = Arena.ofShared();
        boolean done = false;
        WidenedConstants widened = WidenedConstants.of(MergedDecoder.withoutCache(source, where), arena);
        try (Converter converter = Converter.of(Model.of(widened.model()))) {
            Optional<ObjectNode> config = given.isPresent() ? given : HfImporter.configOf(source);
            GraphModel canonical = OnnxInputs.withoutCache(converter.canonical());
            int quantized = new QuantizedLayers(canonical.graph()).linears();
            if (quantized > 0) {
                throw new UnsupportedModelException(
                        "the weights of " + quantized + " Linears are quantised, and a checkpoint is made of floats",
                        where,
                        "give the ONNX model in floats that this one was made from");
            }
            PassLog log = new PassLog();
            GraphModel fixed =
                    TrainingGraph.withExperts(canonical, OnnxInputs.sizes(canonical.graph(), config, where), log);
            Restoration.Found found = Restoration.of(
                    fixed,
                    NamedConstants.of(widened.model(), canonical, widened.narrow()),
                    widened.narrow(),
                    config,
                    WindowReader.of(canonical),
                    notes(log),
                    where,
                    arena);
            GraphModel other = runs(source) ? source : Lowering.standard(canonical, PROOF_OPSET, new PassLog());
            RestoredCheckpoint restored = found.byStructure().isPresent()
                    ? proved(found.byStructure().get(), other, where, arena)
                    : firstProved(found, other, where, arena);
            done = true;
            return restored;
        } finally {
            if (!done) {
                arena.close();
            }
        }
    }

    private static RestoredCheckpoint proved(Restoration restoration, GraphModel other, String where, Arena arena)
            throws IOException {
        GraphModel twin = HfImporter.of(restoration.config(), restoration.tensors(), where)
                .model();
        RestorationProof proof = RestorationProof.of(
                where,
                other,
                Lowering.standard(twin, PROOF_OPSET, new PassLog()),
                restoration.outputs(),
                restoration.config());
        return new RestoredCheckpoint(restoration, proof, arena);
    }

    /** The first one that computes what the file does: names say which constant is which, and nothing of what is computed with them. */
    private static RestoredCheckpoint firstProved(Restoration.Found found, GraphModel other, String where, Arena arena)
            throws IOException {
        List<String> reasons = new ArrayList<>();
        for (Restoration restoration : found.byNames()) {
            try {
                return proved(restoration, other, where, arena);
            } catch (UnsupportedModelException e) {
                reasons.add(restoration.modelClass() + " by the names of the constants: " + e.what());
            }
        }
        throw Restoration.refused(found.reason() + (reasons.isEmpty() ? "" : "; " + reasons.getFirst()), where);
    }

    /** Whether ONNX Runtime runs the model reliably as it is; if not, it runs the model as Octet imports it. */
    private static boolean runs(GraphModel source) {
        return source.graph().nodes().stream().noneMatch(n -> n.is("Attention"));
    }

    private static List<String> notes(PassLog log) {
        return log.notes().stream()
                .filter(n -> !n.node().isEmpty())
                .map(n -> n.node() + ": " + n.text())
                .toList();
    }

    /** {@code config.json} without the keys that a graph does not show: transformers' defaults apply to them. */
    public ObjectNode config() {
        return restoration.config().deepCopy();
    }

    /** Class of transformers, for example {@code BertModel}. */
    public String modelClass() {
        return restoration.modelClass();
    }

    /** The tensors by their names in the checkpoint; valid until {@link #close()}. */
    public Map<String, Tensor> tensors() {
        return Collections.unmodifiableMap(new LinkedHashMap<>(restoration.tensors()));
    }

    /** Keys of the configuration that the file does not show: transformers' defaults apply to them. */
    public List<String> unseen() {
        return restoration.unseen();
    }

    /** Tensors that checkpoints of this class may have but the file lacks; transformers initialises them. */
    public List<String> absent() {
        return restoration.absent();
    }

    /** Largest difference between an output of the checkpoint and of the file, relative to the largest magnitude in the output. */
    public double error() {
        return proof.error();
    }

    /**
     * Writes {@code config.json} and {@code model.safetensors}, or shards of 5 GB with their index: all files or none.
     *
     * @param folder created if missing; the new model replaces a model in it once it is complete, other files stay
     * @throws IOException when there is no space or no permission; the folder is unchanged then
     */
    public void save(Path folder) throws IOException {
        Files.createDirectories(Objects.requireNonNull(folder.toAbsolutePath().getParent()));
        WholeFolder.write(folder, made -> {
            SafetensorsWriter.writeFolder(
                    made, restoration.tensors(), Map.of("format", "pt"), SafetensorsWriter.DEFAULT_SHARD_BYTES);
            ModelConfig.write(made.resolve(ModelConfig.FILE_NAME), restoration.config());
        });
    }

    @Override
    public void close() {
        arena.close();
    }
}
