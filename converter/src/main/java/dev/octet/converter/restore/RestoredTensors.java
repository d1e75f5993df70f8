package dev.octet.converter.restore;

import dev.octet.converter.hf.Blueprint;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
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
        blueprint.wholes().forEach((whole, of) -> {
            if (of.inFiles()) {
                join(blueprint, whole, of, tensors, arena);
            }
        });
        return tensors;
    }

    /** Puts a tensor that files have in the place of its parts. */
    private static void join(
            Blueprint blueprint, String name, Blueprint.Whole whole, Map<String, Tensor> tensors, Arena arena) {
        List<Tensor> parts = whole.parts().stream()
                .map(p -> Objects.requireNonNull(tensors.remove(blueprint.fileName(p)), p))
                .toList();
        String file = blueprint.fileName(name);
        Tensor joined =
                Tensor.allocate(arena, new TensorSpec(file, parts.getFirst().dtype(), whole.shape()));
        long at = 0;
        for (Tensor part : parts) {
            long bytes = part.spec().byteSize();
            joined.bytes().asSlice(at, bytes).copyFrom(part.bytes().asSlice(0, bytes));
            at += bytes;
        }
        tensors.put(file, joined);
    }
}
