package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.config.LossConfig;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The inputs of a model and its loss, fed for each micro-batch.
 *
 * @param inputs graph inputs without a default
 * @param labels name of the labels in the data; empty when none are needed
 * @param ignoreIndex label of positions that are not counted
 * @param vocabulary the model's tokens; empty when the model has no embedding lookup of tokens
 * @param compared what labels are compared with; empty where the labels of texts are their tokens
 */
public record Feed(
        List<ValueInfo> inputs,
        Optional<String> labels,
        long ignoreIndex,
        Optional<Vocabulary> vocabulary,
        Optional<Compared> compared) {
    /** The input of token numbers. */
    static final String TOKENS = "input_ids";
    /** The input of each token's position in its text. */
    static final String POSITIONS = "position_ids";
    /** The input that says to which of two texts a token belongs. */
    public static final String TOKEN_TYPES = "token_type_ids";

    public Feed {
        inputs = List.copyOf(inputs);
    }

    /**
     * The output that labels are compared with.
     *
     * @param loss how
     * @param dims its dimensions; null when the rank is unknown
     */
    public record Compared(LossConfig.Type loss, @Nullable List<Dim> dims) {
        public Compared {
            dims = dims == null ? null : List.copyOf(dims);
        }

        /** Number of dimensions; -1 when unknown. */
        int rank() {
            return dims == null ? -1 : dims.size();
        }

        /** Size of the last dimension: the classes, or the numbers of an answer; empty when unknown. */
        OptionalLong width() {
            Long last = dims == null || dims.isEmpty() ? null : dims.getLast().size();
            return last == null ? OptionalLong.empty() : OptionalLong.of(last);
        }
    }

    /**
     * The feed of a graph and its loss.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the graph does not have the loss's output
     */
    public static Feed of(GraphModel model, LossConfig loss) {
        List<ValueInfo> inputs = model.graph().requiredInputs();
        Optional<String> labels = loss.readsLabels() ? Optional.of(loss.labels()) : Optional.empty();
        String output = loss.outputOf(model);
        Optional<Compared> compared = model.graph().outputs().stream()
                .filter(o ->
                        loss.type() != LossConfig.Type.CAUSAL_LM && o.name().equals(output))
                .map(o -> new Compared(loss.type(), dims(o)))
                .findFirst();
        return new Feed(
                inputs,
                // labels that are graph inputs are already in the list
                labels.filter(l -> inputs.stream().noneMatch(i -> i.name().equals(l))),
                loss.ignoreIndex(),
                Vocabulary.of(model.graph(), TOKENS),
                compared);
    }

    /** The feed of a graph without a loss. */
    public static Feed inputsOf(GraphModel model) {
        return new Feed(
                model.graph().requiredInputs(),
                Optional.empty(),
                0,
                Vocabulary.of(model.graph(), TOKENS),
                Optional.empty());
    }

    /**
     * Adds token types if the data has none: all 0, like transformers.
     *
     * @param tensors data by name; returned with {@link #TOKEN_TYPES} added where {@code inputs} have it and the data has tokens
     * @param inputs graph inputs
     */
    public static Map<String, Tensor> withTokenTypes(Map<String, Tensor> tensors, List<ValueInfo> inputs) {
        Tensor tokens = tensors.get(TOKENS);
        ValueInfo types = inputs.stream()
                .filter(i -> i.name().equals(TOKEN_TYPES))
                .findFirst()
                .orElse(null);
        if (types == null || tokens == null || tensors.containsKey(TOKEN_TYPES)) {
            return tensors;
        }
        DType dtype = Objects.requireNonNullElse(dtype(types), DType.I64);
        Map<String, Tensor> all = new LinkedHashMap<>(tensors);
        all.put(TOKEN_TYPES, Tensor.allocate(Arena.ofAuto(), new TensorSpec(TOKEN_TYPES, dtype, tokens.shape())));
        return all;
    }

    /** Whether the loss compares a preferred answer with a refused one. */
    public boolean comparesAnswers() {
        return compared.isPresent() && compared.get().loss() == LossConfig.Type.DPO;
    }

    /** Names of the arrays that the data must have, given those it has. */
    List<String> needed(Set<String> there) {
        List<String> needed = new ArrayList<>(names());
        if (!there.contains(TOKEN_TYPES) && there.contains(TOKENS)) {
            needed.remove(TOKEN_TYPES);
        }
        return needed;
    }

    /** Names of all inputs and labels to feed. */
    List<String> names() {
        List<String> names =
                new ArrayList<>(inputs.stream().map(ValueInfo::name).toList());
        labels.ifPresent(names::add);
        return names;
    }

    /** Element type of an input; null when the model does not specify it. */
    static @Nullable DType dtype(ValueInfo input) {
        return input.type() instanceof TensorType t ? t.dtype() : null;
    }

    /** The number of rows that an input has in every batch; empty when it takes any number. */
    public static OptionalLong rows(ValueInfo input) {
        List<Dim> dims = dims(input);
        Long rows = dims == null || dims.isEmpty() ? null : dims.getFirst().size();
        return rows == null ? OptionalLong.empty() : OptionalLong.of(rows);
    }

    /** Dimensions of an input; null when the rank is unknown. */
    static @Nullable List<Dim> dims(ValueInfo input) {
        return input.type() instanceof TensorType t ? t.dims() : null;
    }

    /**
     * Integer type of a token input.
     *
     * @throws InvalidDataException when the input is not an integer matrix [batch, length]
     */
    static DType tokenType(ValueInfo input, String file, String fed) {
        DType dtype = dtype(input);
        List<Dim> dims = dims(input);
        boolean integers = dtype == null || dtype == DType.I64 || dtype == DType.I32;
        if (!integers || (dims != null && dims.size() != 2)) {
            throw new InvalidDataException(
                    "the model takes " + input.name() + " " + input.type() + ", " + fed
                            + " give I64 or I32 of shape [batch, length]",
                    file,
                    "give the data as .npz with one array per input");
        }
        return dtype == null ? DType.I64 : dtype;
    }
}
