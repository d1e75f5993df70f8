package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.LayoutGrids;
import dev.octet.converter.checkpoint.MergedWeights;
import dev.octet.converter.merge.BaseWeights;
import dev.octet.converter.transform.InputChange;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.converter.transform.TransformSources;
import dev.octet.converter.transform.TransformedWeights;
import dev.octet.converter.transform.Transforms;
import dev.octet.converter.transform.WeightSource;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.ScratchFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.TransformedWeight;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * What a request's transforms do to a checkpoint.
 *
 * @param weights what they do to its weights as these are streamed
 * @param fingerprint tells this job from others of the same checkpoint
 * @param statistics open files of what they are solved from
 */
record TransformedCheckpoint(
        ModelTransform transform, MergedWeights weights, String fingerprint, CalibratedInputs statistics)
        implements AutoCloseable {
    /** Weights whose rows are mixed lie in memory up to this size, beyond it in a scratch file next to the output. */
    private static final long IN_MEMORY = 256L << 20;

    /**
     * What a request asks for.
     *
     * @throws dev.octet.formats.error.OctetException when the model has no place for a transform, or statistics are missing
     * @throws IOException when model or statistics cannot be read
     */
    static TransformedCheckpoint of(Quantize.CheckpointRequest request, CheckpointConverter converter, Job job)
            throws IOException {
        if (request.transforms().isEmpty()) {
            return none();
        }
        requireStatistics(request, job);
        try (ModelSource source = ModelSource.openAsStored(request.model())) {
            if (source.huggingFace().isEmpty()) {
                throw new UnsupportedModelException(
                        "transforms follow the model's graph, which its config.json describes, and there is none",
                        request.model().toString(),
                        "put the config.json of the model next to its tensors");
            }
            GraphModel model = source.model().graph().orElseThrow();
            CalibratedInputs statistics = CalibratedInputs.of(request, source.digest());
            try {
                BaseWeights base = BaseWeights.of(converter.checkpoint(), converter.stored());
                TransformSources sources = new TransformSources(
                        request.model().toString(),
                        weights(base),
                        statistics,
                        name -> grid(request, base, name),
                        job.threads());
                ModelTransform all = Transforms.of(model.graph(), request.transforms(), sources);
                ModelTransform transform = request.has(Quantize.Choice.FLOATS) ? all.withoutClips() : all;
                return new TransformedCheckpoint(
                        transform,
                        new TransformedWeights(transform, sources, room(request.output())),
                        fingerprint(request),
                        statistics);
            } catch (RuntimeException e) {
                statistics.close();
                throw e;
            }
        }
    }

    /** Nothing is transformed. */
    static TransformedCheckpoint none() {
        return new TransformedCheckpoint(ModelTransform.none(), MergedWeights.NONE, "", CalibratedInputs.none());
    }

    private static void requireStatistics(Quantize.CheckpointRequest request, Job job) {
        Optional<Transform> needing =
                request.transforms().stream().filter(Transform::needsStatistics).findFirst();
        if (needing.isPresent() && request.statistics().isEmpty()) {
            throw job.invalid(
                    "--transform " + needing.get().text() + " needs statistics of the Linears' inputs",
                    "give --statistics FILE, made by: octet calibrate " + request.model() + " -o FILE --data DATA");
        }
    }

    /** What a weight will be rounded to; empty for one that the user keeps, and for heads and the like. */
    private static Optional<WeightGrid> grid(Quantize.CheckpointRequest request, BaseWeights base, String name) {
        Shape shape = Objects.requireNonNull(base.shapes().get(name), name);
        Recipe recipe = request.recipes().getOrDefault(name, request.recipe());
        Layout layout = request.target().layout();
        return request.selection().takes(name, shape)
                ? LayoutGrids.of(layout, recipe, request.layout(), name, shape)
                : Optional.empty();
    }

    private static String fingerprint(Quantize.CheckpointRequest request) throws IOException {
        String transforms = request.transforms().stream().map(Transform::text).collect(Collectors.joining(", "));
        return request.statistics().isPresent()
                ? transforms + " by " + Sha256.of(request.statistics().get())
                : transforms;
    }

    private static WeightSource weights(BaseWeights base) {
        return new WeightSource() {
            @Override
            public Shape shape(String name) {
                return Objects.requireNonNull(base.shapes().get(name), name);
            }

            @Override
            public WeightDelta.Rows rows(String name) {
                return base.rows().apply(name);
            }
        };
    }

    private static TransformedWeight.Room room(Path output) {
        Path folder = Objects.requireNonNullElse(output.toAbsolutePath().getParent(), Path.of("."));
        return bytes -> bytes <= IN_MEMORY || !Files.isDirectory(folder)
                ? TransformedWeight.Room.MEMORY.of(bytes)
                : mapped(folder, bytes);
    }

    /** A file without a name, gone with the mapping. */
    private static MemorySegment mapped(Path folder, long bytes) {
        try (ScratchFile file = ScratchFile.create(folder, bytes, Arena.ofAuto())) {
            file.reserve();
            return file.bytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What the transforms make of the second moment of a module's input. */
    SecondMoment changed(String module, SecondMoment moment) {
        InputChange change = transform.inputs().get(module);
        return change == null ? moment : change.of(moment);
    }

    @Override
    public void close() throws IOException {
        statistics.close();
    }
}
