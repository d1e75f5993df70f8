package dev.octet.formats.peft;

import dev.octet.formats.tensor.Tensor;
import java.util.Collections;
import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;

/**
 * What an adapter holds for one module of the base.
 *
 * @param path of the module in the base
 * @param tensors views, valid as long as the adapter is open
 */
public record AdaptedModule(String path, Map<PeftRole, Tensor> tensors) {
    public AdaptedModule {
        if (tensors.isEmpty()) {
            throw new IllegalArgumentException("module '" + path + "' has no tensors");
        }
        tensors = Collections.unmodifiableMap(new EnumMap<>(tensors));
    }

    /** The tensor of a role. */
    public Optional<Tensor> tensor(PeftRole role) {
        return Optional.ofNullable(tensors.get(role));
    }

    /** Bytes of all its tensors. */
    public long bytes() {
        return tensors.values().stream().mapToLong(t -> t.spec().byteSize()).sum();
    }

    /** Elements of all its tensors. */
    public long parameters() {
        return tensors.values().stream()
                .mapToLong(t -> t.shape().elementCount())
                .sum();
    }
}
