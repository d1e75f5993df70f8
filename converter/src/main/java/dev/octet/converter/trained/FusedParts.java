package dev.octet.converter.trained;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/** Constants that are parts of one tensor of a file, such as the weights of all experts, put together again. */
public final class FusedParts {
    private FusedParts() {}

    /**
     * Tensors by the names of the file. A part that was not trained comes from the graph.
     *
     * @param graph as it was imported
     * @param trained by the names of constants
     * @param arena owns the wholes
     */
    public static Map<String, Tensor> joined(Graph graph, Map<String, Tensor> trained, Arena arena) {
        Map<String, Tensor> all = new LinkedHashMap<>(trained);
        byWhole(graph).forEach((name, parts) -> {
            if (parts.values().stream().anyMatch(p -> trained.containsKey(p.name()))) {
                all.put(name, whole(name, parts, trained, arena));
                parts.values().forEach(p -> all.remove(p.name()));
            }
        });
        return all;
    }

    private static Map<String, SortedMap<Integer, Initializer>> byWhole(Graph graph) {
        Map<String, SortedMap<Integer, Initializer>> wholes = new LinkedHashMap<>();
        graph.initializers().values().forEach(c -> {
            String of = c.metadata().get(Initializer.PART_OF);
            if (of != null) {
                wholes.computeIfAbsent(of, _ -> new TreeMap<>())
                        .put(Integer.valueOf(c.metadata().getOrDefault(Initializer.PART, "0")), c);
            }
        });
        return wholes;
    }

    /** The names of all tensors of which a graph has parts. */
    static Set<String> wholes(Graph graph) {
        return byWhole(graph).keySet();
    }

    /** Parts of a tensor in F32, as views of it, under the names of a graph's constants. */
    static List<Tensor> cut(Graph graph, Tensor whole) {
        List<Tensor> parts = new ArrayList<>();
        long at = 0;
        for (Initializer part :
                byWhole(graph).getOrDefault(whole.name(), new TreeMap<>()).values()) {
            TensorSpec spec = new TensorSpec(
                    part.name(), DType.F32, part.spec().orElseThrow().shape());
            parts.add(new Tensor(spec, whole.bytes().asSlice(at, spec.byteSize())));
            at += spec.byteSize();
        }
        return parts;
    }

    private static Tensor whole(
            String name, SortedMap<Integer, Initializer> parts, Map<String, Tensor> trained, Arena arena) {
        String sizes = parts.values().iterator().next().metadata().getOrDefault(Initializer.WHOLE, "");
        Shape shape = Shape.of(
                Arrays.stream(sizes.split("x", -1)).mapToLong(Long::parseLong).toArray());
        Tensor whole = Tensor.allocate(arena, new TensorSpec(name, DType.F32, shape));
        long at = 0;
        for (Initializer part : parts.values()) {
            Tensor values = trained.getOrDefault(part.name(), part.tensor().orElseThrow());
            long count = values.shape().elementCount();
            Floats.convert(
                    values.dtype(), values.bytes(), DType.F32, whole.bytes().asSlice(at * Float.BYTES), count);
            at += count;
        }
        return whole;
    }
}
