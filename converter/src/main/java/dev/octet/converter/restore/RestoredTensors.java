package dev.octet.converter.restore;

import dev.octet.converter.hf.Blueprint;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** Makes the tensors of a checkpoint from the constants of a graph. */
final class RestoredTensors {
    private RestoredTensors() {}

    /**
     * The tensors by their names in the checkpoint: views of the file, or copies if the order of elements changes.
     *
     * @param arena owns the copies
     */
    static Map<String, Tensor> of(Blueprint blueprint, Map<String, GraphMatcher.Binding> bindings, Arena arena) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        bindings.forEach((parameter, binding) -> {
            String name = blueprint.fileName(parameter);
            Shape shape = Objects.requireNonNull(blueprint.parameters().get(parameter));
            Tensor tensor = binding.transposed() ? binding.tensor().transposed(arena) : binding.tensor();
            TensorSpec spec = new TensorSpec(name, tensor.dtype(), shape);
            tensors.put(name, new Tensor(spec, tensor.bytes().asSlice(0, spec.byteSize())));
        });
        return tensors;
    }
}
