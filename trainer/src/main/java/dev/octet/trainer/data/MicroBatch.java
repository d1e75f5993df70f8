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
 * @param number from 0, over the whole run
 * @param rows indices of its samples in the data file
 * @param tensors by name of the input or labels
 */
public record MicroBatch(long number, List<Long> rows, Map<String, Tensor> tensors) {
    public MicroBatch {
        rows = List.copyOf(rows);
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
    }

    /** Shape of each tensor: each set of shapes has its own program. */
    public Map<String, Shape> shapes() {
        Map<String, Shape> shapes = new TreeMap<>();
        tensors.forEach((name, tensor) -> shapes.put(name, tensor.shape()));
        return shapes;
    }

    /** Number of samples. */
    public int size() {
        return rows.size();
    }
}
