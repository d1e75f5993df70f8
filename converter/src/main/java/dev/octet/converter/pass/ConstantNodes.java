package dev.octet.converter.pass;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Turns the main graph's Constant nodes into initializers of the same name, without copying tensors: some exporters (Paddle)
 * keep every weight that way. Sparse constants, and those that are outputs of the graph, stay nodes.
 */
public final class ConstantNodes implements Pass {
    @Override
    public String name() {
        return "constant-nodes";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        int moved = 0;
        for (Node n : edit.nodes()) {
            if (!n.is("Constant") || n.outputs().size() != 1 || edit.isOutput(n.output())) {
                continue;
            }
            Initializer constant = constant(n);
            if (constant == null) {
                log.note(name(), n.id(), "stays a node: its value is sparse or given by a caller");
                continue;
            }
            edit.remove(n);
            edit.putInitializer(constant);
            moved++;
        }
        if (moved == 0) {
            return model;
        }
        log.note(name(), "", moved + " Constant nodes became initializers");
        return model.withGraph(edit.build());
    }

    private static @Nullable Initializer constant(Node n) {
        String name = n.output();
        for (Attribute a : n.attributes().values()) {
            Initializer made = switch (a.value()) {
                case Attribute.OfTensor t -> renamed(t.value(), name);
                case Attribute.OfInt v -> Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.SCALAR, v.value()));
                case Attribute.OfFloat v ->
                    Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.SCALAR, v.value()));
                case Attribute.OfInts v ->
                    Initializer.of(Tensor.ofLongs(
                            Arena.ofAuto(),
                            name,
                            Shape.of(v.values().size()),
                            v.values().stream().mapToLong(Long::longValue).toArray()));
                case Attribute.OfFloats v -> floats(name, v.values());
                case Attribute.OfText v -> strings(name, Shape.SCALAR, List.of(v.value()));
                case Attribute.OfTexts v -> strings(name, Shape.of(v.values().size()), v.values());
                case Attribute.OfOther _,
                        Attribute.OfGraph _,
                        Attribute.OfType _,
                        Attribute.OfTensors _,
                        Attribute.OfGraphs _,
                        Attribute.OfTypes _,
                        Attribute.Reference _ -> null;
            };
            if (made != null && a.name().startsWith("value")) {
                return made;
            }
        }
        return null;
    }

    private static @Nullable Initializer renamed(Initializer value, String name) {
        return switch (value.data()) {
            case Initializer.Dense d ->
                new Initializer(
                        name,
                        new Initializer.Dense(d.tensor().withName(name)),
                        value.doc(),
                        value.metadata(),
                        value.unknown());
            case Initializer.Coded _, Initializer.Strings _, Initializer.Opaque _ -> value.withName(name);
            case Initializer.Sparse _ -> null;
        };
    }

    private static Initializer floats(String name, List<Float> values) {
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.F32, Shape.of(values.size())));
        for (int i = 0; i < values.size(); i++) {
            t.bytes().setAtIndex(Tensor.F32_LE, i, values.get(i));
        }
        return Initializer.of(t);
    }

    private static Initializer strings(String name, Shape shape, List<Bytes> values) {
        return new Initializer(name, new Initializer.Strings(shape, values), "", Map.of(), Bytes.EMPTY);
    }
}
