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
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherState;
import dev.octet.trainer.op.qat.GradientQuantize;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Emits the forward steps of a graph, with the casts that the precision policy asks for. */
final class ForwardPass {
    private final NeededGraph graph;
    private final PrecisionPolicy policy;
    private final boolean trains;
    private final StateForms states;
    private final ProgramBuilder builder;
    private final Map<String, Value> values = new HashMap<>();
    /** Casts so far: each value is cast to a type only once. */
    private final Map<Cast, Map<Value, Value>> casts = new HashMap<>();
    /** Parameters that are not floats as they lie in memory, by their codes. */
    private final Map<Value, Kept> coded = new HashMap<>();

    private final Set<Value> decoded = new HashSet<>();

    /** A tensor in a form, with the values that stand for it. */
    private record Kept(StateForm form, OperandType tensor, List<Value> parts) {}

    /** @param options without a backward half nothing is dropped */
    ForwardPass(NeededGraph graph, ProgramOptions options, PrecisionPolicy policy, ProgramBuilder builder) {
        this.graph = graph;
        this.policy = policy;
        this.trains = options.hasBackward();
        this.states = options.states();
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

    /** The graph's value named {@code name}, as operators read it. */
    Value value(String name) {
        return floats(kept(name));
    }

    /** The graph's value named {@code name}; of a parameter kept in few bits the codes. */
    Value kept(String name) {
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
        return graph.isWeight(name) ? parameter(name, t) : builder.constant(name, t);
    }

    private Value parameter(String name, Tensor t) {
        OperandType tensor = new OperandType(DType.F32, t.shape());
        StateForm form = states.parameter(name, t.shape());
        if (form.isF32()) {
            return builder.parameter(name, tensor);
        }
        List<Value> parts = builder.kept(name, form, tensor);
        if (form instanceof StateForm.Plain || form instanceof StateForm.Stochastic) {
            return parts.getFirst(); // operators read it as any tensor of its type
        }
        coded.put(parts.getFirst(), new Kept(form, tensor, parts));
        return parts.getFirst();
    }

    /** What is read where any float type will do: F32 of a parameter kept in few bits. */
    private Value floats(Value v) {
        return coded.containsKey(v) && !isReadAs(v, policy.low()) ? decoded(v, DType.F32) : v;
    }

    /** Whether operators may read a parameter as it is kept. */
    boolean readsAsKept(Value parameter) {
        return !coded.containsKey(parameter) || isReadAs(parameter, DType.BF16);
    }

    /** Whether the codes are what operators read in a type: the BF16 of a weight that is split, as Transformer Engine's models have it. */
    private boolean isReadAs(Value codes, DType type) {
        Kept kept = coded.get(codes);
        return kept != null && kept.form() instanceof StateForm.Split && type == DType.BF16;
    }

    /** The numbers of a parameter kept in few bits, made once for all micro-batches. */
    private Value decoded(Value codes, DType to) {
        Kept kept = Objects.requireNonNull(coded.get(codes));
        String name = "decoded:" + to.name().toLowerCase(Locale.ROOT) + ":" + codes.name();
        DecodeState op = new DecodeState(kept.form(), kept.tensor(), to);
        Value made = builder.prepared(name, kept.tensor().as(to));
        if (decoded.add(made)) {
            builder.step(Phase.PREPARE, codes.name(), op, List.copyOf(kept.parts()), List.of(made));
        }
        return made;
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
            inputs.add(name.isEmpty() ? null : kept(name));
        }
        boolean draws = Dropout.is(node) || GradientQuantize.is(node);
        if (draws && !trains) {
            values.put(node.output(), floats(Objects.requireNonNull(inputs.getFirst())));
            return;
        }
        Value fp8 = fp8Linear(node, inputs);
        if (fp8 == null) {
            fp8 = fp8Experts(node, inputs);
        }
        if (fp8 != null) {
            values.put(node.output(), fp8);
            return;
        }
        Value rows = keptRows(node, inputs);
        if (rows != null) {
            values.put(node.output(), rows);
            return;
        }
        List<@Nullable Value> cast = node.is("Cast") ? allFloats(inputs) : castAll(node, inputs);
        List<@Nullable OperandType> types = new ArrayList<>();
        cast.forEach(v -> types.add(v == null ? null : v.type()));
        Op op = Ops.reader(node).orElseThrow().read(graph.source(node, types));
        if (draws) {
            cast = Arrays.asList(cast.getFirst(), builder.state(Dropout.DRAW, Dropout.DRAW_TYPE, 0));
        }
        // what follows from parameters alone is made once for all micro-batches
        boolean lasts = GridQuantize.is(node)
                && cast.stream()
                        .allMatch(v -> v == null || v.role() == ValueRole.PARAMETER || v.role() == ValueRole.PREPARED);
        List<Value> outputs = new ArrayList<>();
        for (int j = 0; j < op.outputs().size(); j++) {
            String name = node.output(j);
            String of = name.isEmpty() ? node.id() + ":" + j : name;
            OperandType type = op.outputs().get(j);
            Value v = lasts ? builder.prepared(of, type) : builder.temporary(of, type);
            outputs.add(v);
            if (!name.isEmpty()) {
                values.put(name, v);
            }
        }
        builder.step(lasts ? Phase.PREPARE : Phase.FORWARD, node.id(), op, cast, outputs);
    }

    /** Rows of a table that is kept in few bits; null for any other node. */
    private @Nullable Value keptRows(Node node, List<@Nullable Value> inputs) {
        if (!node.is("Gather") || inputs.size() < 2) {
            return null;
        }
        Value table = inputs.getFirst();
        Value indices = inputs.get(1);
        Kept kept = table == null ? null : coded.get(table);
        if (table == null
                || kept == null
                || indices == null
                || kept.tensor().shape().rank() != 2
                || kept.form() instanceof StateForm.Blocked
                || isReadAs(table, policy.low())
                || (inputType(node, inputs) != null && inputType(node, inputs) != DType.F32)) {
            return null;
        }
        Op read = Ops.reader(node).orElseThrow().read(graph.source(node, List.of(kept.tensor(), indices.type())));
        if (!(read instanceof Gather rows) || rows.axis() != 0) {
            return null;
        }
        GatherState op = new GatherState(rows, kept.form());
        List<@Nullable Value> operands = new ArrayList<>(List.of(table, indices));
        operands.addAll(kept.parts().subList(1, kept.parts().size()));
        Value made = builder.temporary(node.output(), op.outputs().getFirst());
        builder.step(Phase.FORWARD, node.id(), op, operands, List.of(made));
        return made;
    }

    private @Nullable Value fp8Linear(Node node, List<@Nullable Value> inputs) {
        if (!node.isOctet("Linear") || inputs.size() < 2) {
            return null;
        }
        Value x = inputs.get(0);
        Value w = inputs.get(1);
        Value bias = inputs.size() > 2 ? inputs.get(2) : null;
        if (x == null || w == null || (coded.containsKey(w) && !policy.readsCodes() && !policy.writes(node))) {
            return null;
        }
        return policy.linear(
                node, floats(x), policy.readsCodes() ? w : floats(w), bias == null ? null : floats(bias), builder);
    }

    /** The Linears of experts in FP8; null for any other node. */
    private @Nullable Value fp8Experts(Node node, List<@Nullable Value> inputs) {
        if (!node.isOctet("GroupedLinear") || !policy.writes(node)) {
            return null;
        }
        List<Value> floats = new ArrayList<>();
        inputs.forEach(v -> floats.add(floats(Objects.requireNonNull(v))));
        return policy.groupedLinear(node, floats, builder);
    }

    private List<@Nullable Value> allFloats(List<@Nullable Value> inputs) {
        List<@Nullable Value> all = new ArrayList<>();
        inputs.forEach(v -> all.add(v == null ? null : floats(v)));
        return all;
    }

    /** The type that float inputs are cast to; null where they are read as they are. */
    private @Nullable DType inputType(Node node, List<@Nullable Value> inputs) {
        return switch (policy.rule(node)) {
            case LOW -> policy.low();
            case F32 -> DType.F32;
            case WIDEST -> widest(inputs, coded.keySet());
            case AS_THEY_ARE -> null;
        };
    }

    private List<@Nullable Value> castAll(Node node, List<@Nullable Value> inputs) {
        DType to = inputType(node, inputs);
        if (to == null) {
            List<@Nullable Value> floats = allFloats(inputs);
            Value first = floats.getFirst();
            if (QuantizeNode.isNarrowed(node) && first != null) {
                floats.set(0, cast(node, first, policy.low()));
            }
            return floats;
        }
        List<@Nullable Value> all = new ArrayList<>();
        for (Value v : inputs) {
            all.add(v == null || (!v.type().dtype().isFloat() && !coded.containsKey(v)) ? v : cast(node, v, to));
        }
        return all;
    }

    /** The widest float type of the inputs; F32 when F16 meets BF16; F64 counts as F32. */
    private static DType widest(List<@Nullable Value> inputs, Set<Value> coded) {
        DType widest = null;
        for (Value v : inputs) {
            DType d =
                    v == null ? null : coded.contains(v) ? DType.F32 : v.type().dtype();
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
        if (coded.containsKey(v) && !isReadAs(v, to)) {
            return decoded(v, to);
        }
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
