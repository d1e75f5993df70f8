package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What a model is fed for each micro-batch.
 *
 * @param inputs of the graph, those without a default
 * @param labels name of the labels in the data; empty where none are needed
 * @param ignoreIndex label of positions that do not count
 * @param vocabulary which tokens the model knows; empty when it looks none up
 */
public record Feed(List<ValueInfo> inputs, Optional<String> labels, long ignoreIndex, Optional<Vocabulary> vocabulary) {
    /** The input that is fed tokens. */
    static final String TOKENS = "input_ids";

    public Feed {
        inputs = List.copyOf(inputs);
    }

    /** What a graph with this loss is fed. */
    public static Feed of(GraphModel model, Optional<String> labels, long ignoreIndex) {
        List<ValueInfo> inputs = model.graph().requiredInputs();
        return new Feed(
                inputs,
                // labels that the graph itself takes are one of its inputs
                labels.filter(l -> inputs.stream().noneMatch(i -> i.name().equals(l))),
                ignoreIndex,
                Vocabulary.of(model.graph(), TOKENS));
    }

    /** Names of all there is to feed. */
    List<String> names() {
        List<String> names =
                new ArrayList<>(inputs.stream().map(ValueInfo::name).toList());
        labels.ifPresent(names::add);
        return names;
    }

    /** Element type of an input; null when the model does not say. */
    static @Nullable DType dtype(ValueInfo input) {
        return input.type() instanceof TensorType t ? t.dtype() : null;
    }

    /** Dimensions of an input; null when not even the rank is known. */
    static @Nullable List<Dim> dims(ValueInfo input) {
        return input.type() instanceof TensorType t ? t.dims() : null;
    }

    /**
     * Type that tokens are fed as.
     *
     * @throws InvalidDataException when the input is not of integers [batch, length]
     */
    static DType tokenType(ValueInfo input, String file, String fed) {
        DType dtype = dtype(input);
        List<Dim> dims = dims(input);
        boolean integers = dtype == null || dtype == DType.I64 || dtype == DType.I32;
        if (!integers || (dims != null && dims.size() != 2)) {
            throw new InvalidDataException(
                    "the model wants " + input.name() + " " + input.type() + ", " + fed
                            + " make I64 or I32 of shape [batch, length]",
                    file,
                    "give the data as .npz with one array per input");
        }
        return dtype == null ? DType.I64 : dtype;
    }
}
