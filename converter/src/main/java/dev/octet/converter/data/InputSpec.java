package dev.octet.converter.data;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * An input that a model needs.
 *
 * @param dtype element type; null when the model does not declare it
 * @param dims dimensions, the first being the batch; null when the rank is unknown
 */
public record InputSpec(
        String name, @Nullable DType dtype, @Nullable List<Dim> dims) {
    public InputSpec {
        dims = dims == null ? null : List.copyOf(dims);
    }

    /** The inputs that a caller must feed, that is, those without a default, in the model's order. */
    public static List<InputSpec> of(GraphModel model) {
        return model.graph().requiredInputs().stream().map(InputSpec::of).toList();
    }

    private static InputSpec of(ValueInfo info) {
        return info.type() instanceof ValueType.TensorType t
                ? new InputSpec(info.name(), t.dtype(), t.dims())
                : new InputSpec(info.name(), null, null);
    }

    /** Dimension {@code axis} if the model fixes it to a number. */
    public OptionalLong fixed(int axis) {
        Long size = dims == null || axis >= dims.size() ? null : dims.get(axis).size();
        return size == null ? OptionalLong.empty() : OptionalLong.of(size);
    }

    /** The fixed batch size of the model, if the first dimension of an input is a number. */
    public static OptionalLong fixedBatch(List<InputSpec> inputs) {
        return inputs.stream()
                .map(i -> i.fixed(0))
                .filter(OptionalLong::isPresent)
                .findFirst()
                .orElse(OptionalLong.empty());
    }

    @Override
    public String toString() {
        return name + " " + (dtype == null ? "?" : dtype) + " " + (dims == null ? "[*]" : dims);
    }
}
