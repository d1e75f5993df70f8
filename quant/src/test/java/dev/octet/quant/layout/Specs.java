package dev.octet.quant.layout;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.util.LinkedHashMap;
import java.util.Map;

/** Checkpoints without bytes, one line for each tensor. */
final class Specs {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, TensorSpec> tensors = new LinkedHashMap<>();

    /** One more tensor. */
    Specs add(String name, DType type, long... shape) {
        tensors.put(name, new TensorSpec(name, type, Shape.of(shape)));
        return this;
    }

    Map<String, TensorSpec> tensors() {
        return tensors;
    }

    /** What is recognised without any configuration. */
    StoredCheckpoint recognise() {
        return Layouts.recognise(Headers.of(tensors, Map.of(), null, null));
    }

    /** What is recognised with {@code quantization_config} as given. */
    StoredCheckpoint recognise(String quantizationConfig) {
        return Layouts.recognise(
                Headers.of(tensors, Map.of(), json("{\"quantization_config\": " + quantizationConfig + "}"), null));
    }

    /** JSON with single quotes allowed for double ones. */
    static ObjectNode json(String text) {
        try {
            return (ObjectNode) JSON.readTree(text.replace('\'', '"'));
        } catch (JsonProcessingException e) {
            throw new AssertionError(e);
        }
    }
}
