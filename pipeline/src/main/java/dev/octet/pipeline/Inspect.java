package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.gguf.GgufImport;
import dev.octet.converter.inspect.Fp8TrainingFacts;
import dev.octet.converter.inspect.GgufFacts;
import dev.octet.converter.inspect.Inspection;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.safetensors.SafetensorsFormat;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.Ties;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** {@code octet inspect}: what a model file holds, and what training may change of it; what calibration and training left. */
public final class Inspect {
    private Inspect() {}

    /**
     * What was found.
     *
     * @param architecture class of transformers whose graph it is; null unless it follows from a configuration
     * @param withoutGraph why no graph was made of it; null when one was
     * @param parameters of the canonical graph; of a checkpoint without a graph, its weights by their own names; else empty
     * @param ties those of them that have the same elements
     */
    public record Result(
            Inspection facts,
            @Nullable String architecture,
            @Nullable String withoutGraph,
            List<ParameterFact> parameters,
            List<Ties.Tie> ties) {}

    /**
     * One parameter.
     *
     * @param dtype number type of the elements, of quantised weights the type of the codes
     * @param use weight, bias, embedding, norm or token; as the name suggests where there is no graph
     */
    public record ParameterFact(String name, String dtype, List<Long> shape, long elements, String use) {
        private static final Pattern EMBEDDING = Pattern.compile("(?i)embed|wte\\.|wpe\\.");
        private static final Pattern NORM = Pattern.compile("(?i)norm|ln_|\\.ln\\.");

        /** The weights of a checkpoint, in its order. */
        static List<ParameterFact> of(StoredCheckpoint stored) {
            List<ParameterFact> all = new ArrayList<>();
            stored.weights()
                    .values()
                    .forEach(w -> all.add(of(w.name(), w.codes().name(), w.shape())));
            stored.plain().values().stream()
                    .filter(t -> t.dtype().isFloat())
                    .forEach(t -> all.add(of(t.name(), t.dtype().name(), t.shape())));
            return all;
        }

        private static ParameterFact of(String name, String dtype, Shape shape) {
            Parameter.Use use = EMBEDDING.matcher(name).find()
                    ? Parameter.Use.EMBEDDING
                    : NORM.matcher(name).find()
                            ? Parameter.Use.NORM
                            : name.endsWith("bias") ? Parameter.Use.BIAS : Parameter.Use.WEIGHT;
            return new ParameterFact(
                    name, dtype, Arrays.stream(shape.toArray()).boxed().toList(), shape.elementCount(), use.text());
        }

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

    /** What there is to look at. */
    public enum Kind {
        /** A model: {@link #run}. */
        MODEL,
        /** The folder of a training run, or of one of its checkpoints: {@link RunSummary#find}. */
        TRAINING_RUN,
        /** An adapter: {@link dev.octet.converter.inspect.AdapterFacts#of(Path)}. */
        ADAPTER,
        /** Statistics or second moments of activations: {@link #statistics}. */
        STATISTICS,
        /** A GGUF file: {@link #gguf}. */
        GGUF
    }

    /**
     * What lies at a path; a model where nothing else does.
     *
     * @throws IOException when it cannot be read
     */
    public static Kind kind(Path path) throws IOException {
        if (RunSummary.find(path).isPresent()) {
            return Kind.TRAINING_RUN;
        }
        if (PeftAdapter.isAdapter(path)) {
            return Kind.ADAPTER;
        }
        if (GgufFile.isGguf(path)) {
            return Kind.GGUF;
        }
        return Files.isRegularFile(path) && (StatisticsFile.isOne(path) || isSecondMoments(path))
                ? Kind.STATISTICS
                : Kind.MODEL;
    }

    private static boolean isSecondMoments(Path path) throws IOException {
        if (!new SafetensorsFormat().recognises(path)) {
            return false;
        }
        try (ModelFile file = ModelFile.open(path)) {
            return SecondMoments.isNamed(file.model().metadata());
        }
    }

    /**
     * What a file of statistics or second moments holds.
     *
     * @throws dev.octet.formats.error.OctetException when it is not one, or is damaged
     * @throws IOException when it cannot be read
     */
    public static StatisticsFacts statistics(Path path) throws IOException {
        return StatisticsFile.isOne(path) ? StatisticsFacts.ofStatistics(path) : StatisticsFacts.ofSecondMoments(path);
    }

    /**
     * What a GGUF file of any architecture holds, and whether a folder can be made of it.
     *
     * @throws dev.octet.formats.error.OctetException when it breaks a rule of the format
     * @throws IOException when it cannot be read
     */
    public static GgufFacts gguf(Path path) throws IOException {
        String notConverted = null;
        try (GgufImport file = GgufImport.open(path)) {
            file.plan(file.usualType());
        } catch (UnsupportedModelException | MalformedModelException e) {
            notConverted = e.what();
        }
        return GgufFacts.of(path, notConverted);
    }

    /**
     * Looks at a model. One that cannot be imported is still worth looking at: the result says why it has no graph.
     *
     * @throws dev.octet.formats.error.OctetException when it cannot be read
     * @throws IOException when reading fails
     */
    public static Result run(Path path) throws IOException {
        List<String> notes = List.of();
        Optional<Fp8TrainingFacts> training = Optional.empty();
        if (Checkpoint.isCheckpoint(path)) {
            try (CheckpointConverter converter = CheckpointConverter.open(path)) {
                training = Fp8TrainingFacts.of(converter.checkpoint());
                if (converter.checkpoint().isScattered()) {
                    return inPieces(converter, training);
                }
                notes = converter.checkpoint().notes();
            }
        }
        try (ModelFile file = ModelFile.open(path)) {
            Result result = of(path, file);
            return new Result(
                    result.facts().with(notes, training),
                    result.architecture(),
                    result.withoutGraph(),
                    result.parameters(),
                    result.ties());
        }
    }

    private static Result of(Path path, ModelFile file) throws IOException {
        Optional<GraphModel> own = file.model().graph();
        if (own.isEmpty() && !Checkpoint.isCheckpoint(path)) {
            return withoutGraph(file, null, null);
        }
        StoredCheckpoint stored = null;
        try {
            stored = own.isPresent() ? null : stored(path);
            if (stored != null && !stored.weights().isEmpty()) {
                return withoutGraph(
                        file, stored, "the weights are quantised; they are dequantised where the graph is needed");
            }
            return withGraph(path, file, stored);
        } catch (UnsupportedModelException | MalformedModelException e) {
            return withoutGraph(file, stored, e.what());
        }
    }

    /** Its tensors are put together when they are read: too much work, and memory, for a look at it. */
    private static Result inPieces(CheckpointConverter converter, Optional<Fp8TrainingFacts> training)
            throws IOException {
        return new Result(
                Inspection.of(converter.checkpoint(), converter.stored())
                        .with(converter.checkpoint().notes(), training),
                null,
                "its tensors lie in pieces; octet convert --target huggingface makes a folder that has a graph",
                ParameterFact.of(converter.stored()),
                List.of());
    }

    private static StoredCheckpoint stored(Path path) throws IOException {
        try (CheckpointConverter checkpoint = CheckpointConverter.open(path)) {
            return checkpoint.stored();
        }
    }

    private static Result withGraph(Path path, ModelFile file, @Nullable StoredCheckpoint stored) throws IOException {
        try (ModelSource source = ModelSource.open(path)) {
            Optional<GraphModel> graph = source.model().graph();
            if (graph.isEmpty()) {
                return withoutGraph(file, stored, "there is no config.json next to the tensors");
            }
            try (Converter converter = source.converter()) {
                GraphModel canonical = converter.canonical();
                return new Result(
                        Inspection.of(file, graph, Optional.of(canonical), stored),
                        source.huggingFace()
                                .map(ModelSource.HuggingFace::modelClass)
                                .orElse(null),
                        null,
                        Parameters.of(canonical.graph()).all().stream()
                                .map(ParameterFact::of)
                                .toList(),
                        Ties.find(canonical.graph()));
            }
        }
    }

    private static Result withoutGraph(ModelFile file, @Nullable StoredCheckpoint stored, @Nullable String reason)
            throws IOException {
        List<ParameterFact> parameters = stored == null ? List.of() : ParameterFact.of(stored);
        Inspection facts = Inspection.of(file, file.model().graph(), Optional.empty(), stored);
        return new Result(facts, null, reason, parameters, List.of());
    }
}
