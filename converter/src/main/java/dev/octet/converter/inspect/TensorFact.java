package dev.octet.converter.inspect;

import dev.octet.formats.tensor.TensorSpec;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * One tensor of a model.
 *
 * @param name its name in the file
 * @param dtype number type of its elements
 * @param shape as it is stored, outermost first
 * @param elements number of them
 * @param bytes sub-byte types packed
 * @param role {@code weight}, {@code scale}, {@code zero-point}, {@code input-scale} or {@code other}, which is an unquantised tensor
 * @param quantized the quantised weight whose codes it holds; null otherwise
 */
public record TensorFact(
        String name,
        String dtype,
        List<Long> shape,
        long elements,
        long bytes,
        String role,
        @Nullable QuantizedWeight quantized) {
    /**
     * A quantised weight.
     *
     * @param weight its own name, not that of its codes
     * @param shape its own shape
     * @param form how it is stored: {@code E4M3FN per channel, scale F32}
     * @param scales names of the tensors with its scales and zero points
     */
    public record QuantizedWeight(String weight, List<Long> shape, String form, List<String> scales) {
        public QuantizedWeight {
            shape = List.copyOf(shape);
            scales = List.copyOf(scales);
        }

        /** Numbers of the weight. */
        public long elements() {
            return shape.stream().mapToLong(Long::longValue).reduce(1, (a, b) -> a * b);
        }
    }

    /** What a tensor is to the others. */
    enum Role {
        WEIGHT,
        SCALE,
        ZERO_POINT,
        INPUT_SCALE,
        OTHER
    }

    public TensorFact {
        shape = List.copyOf(shape);
    }

    static TensorFact of(TensorSpec spec, Role role, @Nullable QuantizedWeight quantized) {
        return new TensorFact(
                spec.name(),
                spec.dtype().name(),
                Arrays.stream(spec.shape().toArray()).boxed().toList(),
                spec.shape().elementCount(),
                spec.byteSize(),
                role.name().toLowerCase(Locale.ROOT).replace('_', '-'),
                quantized);
    }
}
