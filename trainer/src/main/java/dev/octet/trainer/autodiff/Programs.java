package dev.octet.trainer.autodiff;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.program.Program;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/** Programs of one graph by size: one for each assignment of sizes to the graph's open dimensions, built on first use. */
public final class Programs {
    private final Function<Map<String, Long>, GraphModel> graphs;
    private final ProgramOptions options;
    private final Map<Map<String, Long>, Program> made = new HashMap<>();

    /**
     * Builds no program yet.
     *
     * @param graphs from a size for each open dimension to the canonical graph at these shapes, with the loss
     */
    public Programs(Function<Map<String, Long>, GraphModel> graphs, ProgramOptions options) {
        this.graphs = graphs;
        this.options = options;
    }

    /** The program for these sizes, one for each open dimension. */
    public Program at(Map<String, Long> sizes) {
        // the key has every open dimension: a program with constants folded for another size would be silently wrong
        return made.computeIfAbsent(Map.copyOf(sizes), s -> Autodiff.program(graphs.apply(s), options));
    }

    /** Number of programs so far. */
    public int count() {
        return made.size();
    }

    /**
     * Sizes of a graph's open dimensions, from the shapes of its inputs. Entries that are not inputs are ignored.
     *
     * @throws InvalidDataException when an input is missing or has the wrong rank or size, or a dimension gets two different sizes
     */
    public static Map<String, Long> sizes(Graph graph, Map<String, Shape> inputs) {
        Map<String, Long> sizes = new TreeMap<>();
        for (ValueInfo v : graph.requiredInputs()) {
            if (!(v.type() instanceof TensorType t) || t.dims() == null) {
                continue;
            }
            Shape shape = inputs.get(v.name());
            if (shape == null) {
                throw new InvalidDataException(
                        "input '" + v.name() + "' is missing",
                        "inputs given: " + new TreeMap<>(inputs).keySet(),
                        "give it as " + t);
            }
            if (shape.rank() != t.dims().size()) {
                throw misfit(v, t.dims(), shape);
            }
            for (int i = 0; i < shape.rank(); i++) {
                bind(v, t.dims(), i, shape, sizes);
            }
        }
        return sizes;
    }

    private static void bind(ValueInfo v, List<Dim> dims, int i, Shape shape, Map<String, Long> sizes) {
        Dim d = dims.get(i);
        if (d.size() != null && d.size() != shape.dim(i)) {
            throw misfit(v, dims, shape);
        }
        Long before = d.symbol() == null ? null : sizes.put(d.symbol(), shape.dim(i));
        if (before != null && before != shape.dim(i)) {
            throw new InvalidDataException(
                    "dimension '" + d.symbol() + "' is both " + before + " and " + shape.dim(i),
                    "input '" + v.name() + "' " + shape,
                    "give inputs of matching sizes");
        }
    }

    /** Whether only the size of the first axis is wrong. */
    private static boolean isBatchAlone(List<Dim> dims, Shape shape) {
        if (shape.rank() == 0 || shape.rank() != dims.size()) {
            return false;
        }
        for (int i = 1; i < shape.rank(); i++) {
            Long size = dims.get(i).size();
            if (size != null && size != shape.dim(i)) {
                return false;
            }
        }
        return true;
    }

    private static InvalidDataException misfit(ValueInfo v, List<Dim> dims, Shape shape) {
        return new InvalidDataException(
                "input '" + v.name() + "' is " + shape + ", the model takes " + dims,
                "input '" + v.name() + "'",
                isBatchAlone(dims, shape)
                        ? "give batches of " + dims.getFirst()
                                + " (batch_size), or export the model with an open first axis"
                        : "give it the model's shape");
    }
}
