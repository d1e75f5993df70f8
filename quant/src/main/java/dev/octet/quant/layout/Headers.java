package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What layouts are recognised by: all of a checkpoint but its numbers, and those few numbers that say a shape.
 *
 * @param tensors all tensors by name, in the order of the checkpoint
 * @param metadata of its safetensors files, merged
 * @param config its {@code config.json}, null when there is none
 * @param quantConfig its {@code hf_quant_config.json}, null when there is none
 * @param shapes what tensors named {@code *_shape} hold, by their names
 */
public record Headers(
        Map<String, TensorSpec> tensors,
        Map<String, String> metadata,
        @Nullable ObjectNode config,
        @Nullable ObjectNode quantConfig,
        Map<String, Shape> shapes) {
    private static final String SHAPE = ".weight_shape";
    private static final int MAX_RANK = 4;

    public Headers {
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
        metadata = Map.copyOf(metadata);
        shapes = Map.copyOf(shapes);
    }

    /** Those of a checkpoint whose tensors tell no shapes. */
    public static Headers of(
            Map<String, TensorSpec> tensors,
            Map<String, String> metadata,
            @Nullable ObjectNode config,
            @Nullable ObjectNode quantConfig) {
        return new Headers(tensors, metadata, config, quantConfig, Map.of());
    }

    /**
     * Those of a checkpoint.
     *
     * @throws IOException when a tensor that holds a shape cannot be read
     */
    public static Headers of(Checkpoint checkpoint, @Nullable ObjectNode quantConfig) throws IOException {
        Map<String, TensorSpec> tensors =
                LinkedHashMap.newLinkedHashMap(checkpoint.tensors().size());
        Map<String, Shape> shapes = new LinkedHashMap<>();
        for (StoredTensor tensor : checkpoint.tensors().values()) {
            tensors.put(tensor.name(), tensor.spec());
            if (tensor.name().endsWith(SHAPE)) {
                putShape(checkpoint, tensor, shapes);
            }
        }
        Map<String, String> metadata = new LinkedHashMap<>();
        checkpoint.shards().forEach(s -> s.header().metadata().forEach(metadata::putIfAbsent));
        return new Headers(tensors, metadata, checkpoint.config().orElse(null), quantConfig, shapes);
    }

    private static void putShape(Checkpoint checkpoint, StoredTensor tensor, Map<String, Shape> shapes)
            throws IOException {
        boolean wide = tensor.dtype() == DType.I64;
        boolean few = tensor.shape().rank() == 1 && tensor.shape().elementCount() <= MAX_RANK;
        if (!few || (!wide && tensor.dtype() != DType.I32)) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment numbers = checkpoint.read(tensor, arena);
            long[] dims = new long[(int) tensor.shape().elementCount()];
            for (int i = 0; i < dims.length; i++) {
                dims[i] = wide
                        ? numbers.get(ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN), 8L * i)
                        : numbers.get(ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN), 4L * i);
                if (dims[i] < 0 || dims[i] > Integer.MAX_VALUE) {
                    return; // no shape of a weight
                }
            }
            shapes.put(tensor.name(), Shape.of(dims));
        }
    }
}
