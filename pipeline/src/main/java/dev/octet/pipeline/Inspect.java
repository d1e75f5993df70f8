package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.inspect.Inspection;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.Ties;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** {@code octet inspect}: what a model file holds, and what training may change of it. */
public final class Inspect {
    private Inspect() {}

    /**
     * What was found.
     *
     * @param architecture class of transformers whose graph it is; null unless it follows from a configuration
     * @param withoutGraph why no graph was made of it; null when one was
     * @param parameters of the canonical graph; empty without a graph
     * @param ties those of them that have the same elements
     */
    public record Result(
            Inspection facts,
            @Nullable String architecture,
            @Nullable String withoutGraph,
            List<ParameterFact> parameters,
            List<Ties.Tie> ties) {}

    /** One parameter: {@code use} is weight, bias, embedding, norm or token. */
    public record ParameterFact(String name, String dtype, List<Long> shape, long elements, String use) {
        static ParameterFact of(Parameter p) {
            Tensor t = p.tensor();
            return new ParameterFact(
                    p.name(),
                    t.dtype().name(),
                    Arrays.stream(t.shape().toArray()).boxed().toList(),
                    t.shape().elementCount(),
                    p.use().text());
        }
    }

    /**
     * Looks at a model. One that cannot be imported is still worth looking at: the result says why it has no graph.
     *
     * @throws dev.octet.formats.error.OctetException when it cannot be read
     * @throws IOException when reading fails
     */
    public static Result run(Path path) throws IOException {
        try (ModelFile file = ModelFile.open(path)) {
            return of(path, file);
        }
    }

    private static Result of(Path path, ModelFile file) throws IOException {
        Optional<GraphModel> own = file.model().graph();
        if (own.isEmpty() && !Checkpoint.isCheckpoint(path)) {
            return new Result(Inspection.of(file, own, Optional.empty()), null, null, List.of(), List.of());
        }
        if (isQuantized(path, own)) {
            return withoutGraph(file, "the weights are quantised; they are dequantised where the graph is needed");
        }
        try (ModelSource source = ModelSource.open(path)) {
            Optional<GraphModel> graph = source.model().graph();
            if (graph.isEmpty()) {
                return withoutGraph(file, "there is no config.json next to the tensors");
            }
            try (Converter converter = source.converter()) {
                GraphModel canonical = converter.canonical();
                return new Result(
                        Inspection.of(file, graph, Optional.of(canonical)),
                        source.huggingFace()
                                .map(ModelSource.HuggingFace::modelClass)
                                .orElse(null),
                        null,
                        Parameters.of(canonical.graph()).all().stream()
                                .map(ParameterFact::of)
                                .toList(),
                        Ties.find(canonical.graph()));
            }
        } catch (UnsupportedModelException | MalformedModelException e) {
            return withoutGraph(file, e.what());
        }
    }

    private static boolean isQuantized(Path path, Optional<GraphModel> own) throws IOException {
        if (own.isPresent()) {
            return false;
        }
        try (CheckpointConverter checkpoint = CheckpointConverter.open(path)) {
            return !checkpoint.stored().weights().isEmpty();
        }
    }

    private static Result withoutGraph(ModelFile file, String reason) throws IOException {
        return new Result(
                Inspection.of(file, file.model().graph(), Optional.empty()), null, reason, List.of(), List.of());
    }
}
