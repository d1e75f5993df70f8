package dev.octet.trainer.autodiff;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Emits the forward steps of a graph, with the casts that the precision policy asks for. */
final class ForwardPass {
    private final NeededGraph graph;
    private final PrecisionPolicy policy;
    private final boolean trains;
    private final ProgramBuilder builder;
    private final Map<String, Value> values = new HashMap<>();
    /** Casts so far: each value is cast to a type only once. */
    private final Map<Cast, Map<Value, Value>> casts = new HashMap<>();

    /** @param trains whether a backward half follows; without one nothing is dropped */
    ForwardPass(NeededGraph graph, PrecisionPolicy policy, boolean trains, ProgramBuilder builder) {
        this.graph = graph;
        this.policy = policy;
        this.trains = trains;
        this.builder = builder;
    }

    void emit() {
        graph.nodes().forEach(this::emit);
        policy.afterForward(builder);
    }

    /** Whether a forward step computes or reads the value named {@code name}. */
    boolean uses(String name) {
        return values.containsKey(name);
    }

    /** The graph's value named {@code name}. */
    Value value(String name) {
        Value v = values.get(name);
        if (v == null) {
            v = source(name);
            values.put(name, v);
        }
        return v;
    }

    /** A value that no node computes: an input, a weight or a constant. */
    private Value source(String name) {
        OperandType input = graph.input(name);
        if (input != null) {
            return builder.input(name, input);
        }
        Tensor t = graph.constant(name);
        if (t == null) {
            t = graph.decoded(name);
        }
        if (t == null) {
            throw new UnsupportedModelException(
                    "'" + name + "' is neither computed nor an input nor a dense constant",
                    "value '" + name + "'",
                    "check the model with onnx.checker, or export it again");
        }
        return graph.isWeight(name)
                ? builder.parameter(name, new OperandType(DType.F32, t.shape()))
                : builder.constant(name, t);
    }

    private void emit(Node node) {
        StoredSteps stored = new StoredSteps(graph, policy, builder, this::value, (v, to) -> cast(node, v, to));
        Value read = stored.emit(node);
        if (read != null) {
            values.put(node.output(), read);
            return;
        }
        List<@Nullable Value> inputs = new ArrayList<>();
        for (String name : node.inputs()) {
            inputs.add(name.isEmpty() ? null : value(name));
        }
        if (Dropout.is(node) && !trains) {
            values.put(node.output(), Objects.requireNonNull(inputs.getFirst()));
            return;
        }
        Value fp8 = fp8Linear(node, inputs);
        if (fp8 != null) {
            values.put(node.output(), fp8);
            return;
        }
        List<@Nullable Value> cast = node.is("Cast") ? inputs : castAll(node, inputs);
        List<@Nullable OperandType> types = new ArrayList<>();
        cast.forEach(v -> types.add(v == null ? null : v.type()));
        Op op = Ops.reader(node).orElseThrow().read(graph.source(node, types));
        if (Dropout.is(node)) {
            cast = Arrays.asList(cast.getFirst(), builder.state(Dropout.DRAW, Dropout.DRAW_TYPE, 0));
        }
        List<Value> outputs = new ArrayList<>();
        for (int j = 0; j < op.outputs().size(); j++) {
            String name = node.output(j);
            Value v = builder.temporary(
                    name.isEmpty() ? node.id() + ":" + j : name, op.outputs().get(j));
            outputs.add(v);
            if (!name.isEmpty()) {
                values.put(name, v);
            }
        }
        builder.step(Phase.FORWARD, node.id(), op, cast, outputs);
    }

    private @Nullable Value fp8Linear(Node node, List<@Nullable Value> inputs) {
        if (!node.isOctet("Linear") || inputs.size() < 2) {
            return null;
        }
        Value x = inputs.get(0);
        Value w = inputs.get(1);
        return x == null || w == null
                ? null
                : policy.linear(node, x, w, inputs.size() > 2 ? inputs.get(2) : null, builder);
    }

    private List<@Nullable Value> castAll(Node node, List<@Nullable Value> inputs) {
        DType to = switch (policy.rule(node)) {
            case LOW -> policy.low();
            case F32 -> DType.F32;
            case WIDEST -> widest(inputs);
            case AS_THEY_ARE -> null;
        };
        if (to == null) {
            return inputs;
        }
        List<@Nullable Value> all = new ArrayList<>();
        for (Value v : inputs) {
            all.add(v == null || !v.type().dtype().isFloat() ? v : cast(node, v, to));
        }
        return all;
    }

    /** The widest float type of the inputs; F32 when F16 meets BF16; F64 counts as F32. */
    private static DType widest(List<@Nullable Value> inputs) {
        DType widest = null;
        for (Value v : inputs) {
            DType d = v == null ? null : v.type().dtype();
            if (d == null || !d.isFloat()) {
                continue;
            }
            if (d == DType.F64 || (widest != null && widest != d)) {
                widest = DType.F32;
            } else {
                widest = d;
            }
        }
        return widest == null ? DType.F32 : widest;
    }

    private Value cast(Node node, Value v, DType to) {
        if (v.type().dtype() == to) {
            return v;
        }
        Cast op = new Cast(v.type(), to);
        return casts.computeIfAbsent(op, c -> new HashMap<>()).computeIfAbsent(v, source -> {
            // Constants may differ between shapes, so casts of them are not shared by name.
            boolean shared =
                    v.role() == ValueRole.PARAMETER || v.role() == ValueRole.STORED || v.role() == ValueRole.PREPARED;
            String name = "cast:" + to.name().toLowerCase(Locale.ROOT) + ":" + v.name();
            Value made = shared
                    ? builder.prepared(name, v.type().as(to))
                    : builder.temporary(name, v.type().as(to));
            builder.step(shared ? Phase.PREPARE : Phase.FORWARD, node.id(), op, List.of(v), List.of(made));
            return made;
        });
    }
}
