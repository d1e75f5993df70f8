package dev.octet.trainer.check;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Expected results of a graph, from one file of tensors named {@code in.NAME}, {@code upstream.OUTPUT}, {@code out.NAME} and
 * {@code grad.NAME}. The maps have the names without the prefix.
 *
 * @param inputs tensors to feed
 * @param upstream gradients of outputs to feed
 * @param outputs expected values of outputs
 * @param gradients expected gradients of inputs and parameters
 */
public record Golden(
        Map<String, Tensor> inputs,
        Map<String, Tensor> upstream,
        Map<String, Tensor> outputs,
        Map<String, Tensor> gradients) {
    public Golden {
        inputs = Collections.unmodifiableMap(new TreeMap<>(inputs));
        upstream = Collections.unmodifiableMap(new TreeMap<>(upstream));
        outputs = Collections.unmodifiableMap(new TreeMap<>(outputs));
        gradients = Collections.unmodifiableMap(new TreeMap<>(gradients));
    }

    /** These expectations with other inputs. */
    public Golden withInputs(Map<String, Tensor> other) {
        return new Golden(other, upstream, outputs, gradients);
    }

    /**
     * Sorts the tensors of a file by their prefixes.
     *
     * @param file its name, for messages
     * @throws InvalidDataException when a tensor has an unknown prefix, or nothing is expected
     */
    public static Golden of(Map<String, Tensor> tensors, String file) {
        Map<String, Tensor> inputs = new TreeMap<>();
        Map<String, Tensor> upstream = new TreeMap<>();
        Map<String, Tensor> outputs = new TreeMap<>();
        Map<String, Tensor> gradients = new TreeMap<>();
        Map<String, Map<String, Tensor>> byPrefix =
                Map.of("in", inputs, "upstream", upstream, "out", outputs, "grad", gradients);
        List<String> others = new ArrayList<>();
        tensors.forEach((name, t) -> {
            int dot = name.indexOf('.');
            Map<String, Tensor> group = dot < 0 ? null : byPrefix.get(name.substring(0, dot));
            if (group == null) {
                others.add(name);
            } else {
                group.put(name.substring(dot + 1), t);
            }
        });
        if (!others.isEmpty()) {
            Collections.sort(others);
            throw new InvalidDataException(
                    "tensors with unknown prefixes: " + others,
                    file,
                    "name them in.INPUT, upstream.OUTPUT, out.OUTPUT or grad.NAME, or leave them out");
        }
        if (outputs.isEmpty() && gradients.isEmpty()) {
            throw new InvalidDataException(
                    "nothing to compare with: no out.NAME and no grad.NAME", file, "add expected outputs or gradients");
        }
        return new Golden(inputs, upstream, outputs, gradients);
    }
}
