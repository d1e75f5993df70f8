package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Puts the weights of a checkpoint into a graph: constants with the name of a weight get its values, dequantised, in the constant's number
 * type. A matrix that the graph holds transposed ([in, out] for MatMul) is transposed; for a square matrix, its layout, the checkpoint's
 * other matrices or the configuration decide.
 *
 * @param model the graph with the new values
 * @param replaced names of the replaced constants
 * @param unmatched weights of the checkpoint without a constant in the graph
 */
public record GraphWeights(GraphModel model, List<String> replaced, List<String> unmatched) {
    public GraphWeights {
        replaced = List.copyOf(replaced);
        unmatched = List.copyOf(unmatched);
    }

    /**
     * Replaces the values.
     *
     * @param config the checkpoint's, null without one
     * @param arena owns the new values
     * @throws UnsupportedModelException when checkpoint and graph share no name, a shape differs in more than the order of two axes, or the
     *     orientation of a square matrix is unknown
     * @throws IOException when the checkpoint cannot be read
     */
    public static GraphWeights into(
            GraphModel model, WeightReader reader, StoredCheckpoint stored, @Nullable ObjectNode config, Arena arena)
            throws IOException {
        GraphEdit edit = GraphEdit.of(model.graph());
        Set<String> names = new TreeSet<>(stored.weights().keySet());
        stored.plain().values().stream()
                .filter(s -> s.dtype() == DType.F32 || s.dtype() == DType.BF16 || s.dtype() == DType.F16)
                .map(TensorSpec::name)
                .forEach(names::add);
        MatrixOrders orders = new MatrixOrders(model.graph(), stored.weights().keySet(), config);
        Map<String, TensorSpec> wanted = new LinkedHashMap<>();
        List<String> unmatched = new ArrayList<>();
        for (String name : names) {
            Initializer old = edit.initializer(name);
            if (old == null || old.tensor().isEmpty()) {
                unmatched.add(name);
                continue;
            }
            wanted.put(name, old.tensor().get().spec());
            orders.see(name, reader.shape(name), old.tensor().get().shape());
        }
        for (Map.Entry<String, TensorSpec> w : wanted.entrySet()) {
            edit.putInitializer(Initializer.of(values(w.getKey(), w.getValue(), reader, orders, arena)));
        }
        if (wanted.isEmpty()) {
            throw new UnsupportedModelException(
                    "no weight of the checkpoint has the name of a constant of the graph",
                    names.stream().findFirst().orElse("no weights") + " and "
                            + edit.initializerNames().stream().findFirst().orElse("no constants"),
                    "compare the names with `octet inspect --tensors`; exporters rename weights unless told otherwise");
        }
        return new GraphWeights(model.withGraph(edit.build()), List.copyOf(wanted.keySet()), unmatched);
    }

    private static Tensor values(String name, TensorSpec wanted, WeightReader reader, MatrixOrders orders, Arena arena)
            throws IOException {
        Shape shape = reader.shape(name);
        boolean same = shape.equals(wanted.shape());
        boolean turned = shape.rank() == 2
                && wanted.shape().rank() == 2
                && shape.dim(0) == wanted.shape().dim(1)
                && shape.dim(1) == wanted.shape().dim(0);
        boolean floats = wanted.dtype() == DType.F32 || wanted.dtype() == DType.BF16 || wanted.dtype() == DType.F16;
        if ((!same && !turned) || !floats) {
            throw new UnsupportedModelException(
                    "the checkpoint has shape " + shape + ", the graph " + wanted.shape() + " of " + wanted.dtype(),
                    "weight '" + name + "'",
                    "give the graph and the checkpoint of the same model, not quantised in the graph");
        }
        boolean transposed = turned && (!same || orders.isTurned(name, shape));
        long rows = Blocks.rows(shape);
        long cols = Blocks.cols(shape);
        Tensor target = Tensor.allocate(arena, wanted.withName(name));
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment f32 = scratch.allocate(Math.max(1, shape.elementCount() * Float.BYTES), 64);
            reader.read(
                    name,
                    0,
                    shape.elementCount() / Math.max(1, cols),
                    f32.asSlice(0, shape.elementCount() * Float.BYTES));
            for (long i = 0; i < shape.elementCount(); i++) {
                long at = transposed ? i % cols * rows + i / cols : i;
                Floats.set(wanted.dtype(), target.bytes(), at, f32.get(Tensor.F32_LE, i * Float.BYTES));
            }
        }
        return target;
    }
}
