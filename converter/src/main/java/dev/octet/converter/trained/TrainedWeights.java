package dev.octet.converter.trained;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import java.lang.foreign.Arena;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Puts trained weights into a graph, in a chosen number type. */
public final class TrainedWeights {
    private TrainedWeights() {}

    /**
     * The graph with these weights in place of its constants, each rounded once to the constant's type; a weight whose constant the graph
     * widens before use is not rounded.
     *
     * @param weights F32, BF16 or F16 by the constant's name
     * @param arena owns the new constants
     * @throws InvalidDataException when there is no such constant, its shape differs, or a value is NaN or infinite in its type
     */
    public static GraphModel put(GraphModel model, Map<String, Tensor> weights, Arena arena) {
        GraphEdit edit = GraphEdit.of(model.graph());
        weights.forEach((name, trained) -> {
            Initializer old = edit.initializer(name);
            Tensor constant = old == null ? null : old.tensor().orElse(null);
            if (constant == null) {
                throw new InvalidDataException(
                        "the model has no weight '" + name + "'",
                        "weights of the run",
                        "export with the model that the run was started with");
            }
            if (!constant.shape().equals(trained.shape())) {
                throw new InvalidDataException(
                        "the run has shape " + trained.shape() + ", the model " + constant.shape(),
                        "weight '" + name + "'",
                        "export with the model that the run was started with");
            }
            DType type = isWidened(edit, name) ? trained.dtype() : constant.dtype();
            replace(edit, cast(trained.withName(name), type, arena));
        });
        return model.withGraph(edit.build());
    }

    /**
     * Whether all readers of a constant widen it to F32: Octet's operators, which widen weights to the type of their input, a Cast, or a
     * Cast after a Gather of rows.
     */
    private static boolean isWidened(GraphEdit edit, String name) {
        return edit.consumers(name).stream().allMatch(n -> {
            boolean looksUp = n.is("Gather") && n.input(0).equals(name);
            return castsToF32(n)
                    || (n.domain().equals(Node.OCTET_DOMAIN) && !n.input(0).equals(name) && isF32(edit, n.input(0)))
                    || (looksUp
                            && edit.consumers(n.outputs().getFirst()).stream().allMatch(TrainedWeights::castsToF32));
        });
    }

    /** Replaces the constant of the same name; gathered rows get its type. */
    static void replace(GraphEdit edit, Tensor constant) {
        edit.putInitializer(Initializer.of(constant));
        for (Node n : edit.consumers(constant.name())) {
            String rows = n.outputs().getFirst();
            if (n.is("Gather")
                    && n.input(0).equals(constant.name())
                    && edit.type(rows) instanceof TensorType t
                    && t.dtype() != constant.dtype()) {
                edit.putValueInfo(new ValueInfo(rows, new TensorType(constant.dtype(), t.dims())));
            }
        }
    }

    private static boolean castsToF32(Node n) {
        return n.is("Cast") && n.intAttribute("to", 0) == DType.F32.onnxId();
    }

    private static boolean isF32(GraphEdit edit, String value) {
        return edit.type(value) instanceof TensorType t && t.dtype() == DType.F32;
    }

    /**
     * The graph with some constants stored in another type; a Cast restores the type the graph computes in.
     *
     * @param names of constants; constants that are not floats or have this type already stay
     * @throws InvalidDataException when a value becomes infinite
     */
    public static GraphModel store(GraphModel model, Collection<String> names, DType type, Arena arena) {
        GraphEdit edit = GraphEdit.of(model.graph());
        for (String name : names) {
            Initializer old = edit.initializer(name);
            Tensor constant = old == null ? null : old.tensor().orElse(null);
            List<Node> readers = edit.consumers(name);
            if (constant == null || !isFloat(constant.dtype()) || constant.dtype() == type || readers.isEmpty()) {
                continue;
            }
            String stored = edit.freshName(name + "_" + type.name().toLowerCase(Locale.ROOT));
            edit.putInitializer(Initializer.of(cast(constant, type, arena).withName(stored)));
            Node cast = Node.of(
                    stored + "_cast",
                    "Cast",
                    List.of(stored),
                    List.of(name),
                    Attribute.of("to", constant.dtype().onnxId()));
            edit.removeInitializer(name);
            edit.insertBefore(readers.getFirst(), cast);
        }
        return model.withGraph(edit.build());
    }

    /** Casts tensors to one type, for checkpoints. */
    public static Map<String, Tensor> cast(Map<String, Tensor> tensors, DType type, Arena arena) {
        Map<String, Tensor> result = new LinkedHashMap<>();
        tensors.forEach((name, t) -> result.put(name, isFloat(t.dtype()) ? cast(t, type, arena) : t));
        return result;
    }

    static boolean isFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    /** Casts by rounding to nearest even. */
    static Tensor cast(Tensor from, DType type, Arena arena) {
        if (!isFloat(type)) {
            throw new InvalidDataException(
                    "the model stores the weight as " + type + ", which Octet does not train",
                    "weight '" + from.name() + "'",
                    "export with the model that the run was started with");
        }
        Tensor to = Tensor.allocate(arena, new TensorSpec(from.name(), type, from.shape()));
        for (long i = 0; i < from.shape().elementCount(); i++) {
            float x = Floats.get(from.dtype(), from.bytes(), i);
            Floats.set(type, to.bytes(), i, x);
            if (!Float.isFinite(x) || !Float.isFinite(Floats.get(type, to.bytes(), i))) {
                throw notFinite(to.spec(), i, x);
            }
        }
        return to;
    }

    /** For an element that is NaN or infinite, or becomes so in its type. */
    static InvalidDataException notFinite(TensorSpec to, long element, float x) {
        return new InvalidDataException(
                "element " + element + " is " + x + (Float.isFinite(x) ? ", too large for " + to.dtype() : ""),
                "weight '" + to.name() + "'",
                "the run diverged; export an earlier checkpoint of it");
    }
}
