package dev.octet.trainer.data;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Samples that go through the model together.
 *
 * @param number from 0, counting over the whole run
 * @param rows numbers of its samples in their file
 * @param tensors by name of input or labels
 */
public record MicroBatch(long number, List<Long> rows, Map<String, Tensor> tensors) {
    public MicroBatch {
        rows = List.copyOf(rows);
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
    }

    /** Shape of each tensor: programs are made for these. */
    public Map<String, Shape> shapes() {
        Map<String, Shape> shapes = new TreeMap<>();
        tensors.forEach((name, tensor) -> shapes.put(name, tensor.shape()));
        return shapes;
    }

    /** Samples in it. */
    public int size() {
        return rows.size();
    }
}
