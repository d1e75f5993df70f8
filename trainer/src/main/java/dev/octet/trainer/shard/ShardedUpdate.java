package dev.octet.trainer.shard;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.AverageShares;
import dev.octet.trainer.op.shard.ShareValues;
import dev.octet.trainer.op.update.FiniteGradients;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Cuts an update to the parameters that a rank owns. Where gradients are cut, too, each rank adds up the squares of its own and gets those of the others, so that the norm is
 * added in the same order as ever. At the end all ranks get the new weights.
 */
final class ShardedUpdate {
    private final Program whole;
    private final UpdateCut cut;
    private final int rank;
    private final Collectives world;
    private final List<Value> values = new ArrayList<>();
    private final List<Step> steps = new ArrayList<>();
    private final Map<Value, Value> copies = new HashMap<>();
    private final Map<String, Value> named = new HashMap<>();

    ShardedUpdate(UpdateCut cut, int rank, Collectives world) {
        this.whole = cut.whole().program();
        this.cut = cut;
        this.rank = rank;
        this.world = world;
    }

    Program program() {
        // what all ranks keep, whether or not a parameter of this one needs it
        Set<Value> used = new HashSet<>();
        whole.steps().forEach(s -> used.addAll(s.operands()));
        whole.values().stream()
                .filter(v -> v.role() == ValueRole.STATE && cut.owner(v.name()).isEmpty() && used.contains(v))
                .forEach(this::copy);
        cut.averaged().forEach(this::average);
        boolean measured = false;
        for (Step step : whole.steps()) {
            boolean reads = step.op() instanceof FiniteGradients || step.op() instanceof ShareValues;
            if (reads && !measured) { // a stage gives its squares to the others before all are added
                shareSquares();
                measured = true;
            }
            if (isOwn(step.node()) || (!measured && !cut.sharesSquares())) {
                steps.add(copy(step));
            }
        }
        cut.shared().forEach(this::shareWeights);
        return new Program(
                values,
                steps,
                Map.of(),
                Map.of(),
                kept(whole.gradients()),
                keys(whole.constants()),
                Map.of(),
                keys(whole.initialStates()));
    }

    /** Whether this rank does a step: those of its own parameters, and those of none. */
    private boolean isOwn(String node) {
        Integer owner = cut.partition().owners().get(node);
        return owner == null || owner == rank;
    }

    private void average(List<String> bucket) {
        List<Value> sums = new ArrayList<>();
        List<Value> own = new ArrayList<>();
        List<OperandType> averages = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        for (String name : bucket) {
            Value g = requireNonNull(whole.gradients().get(name), name);
            OperandType f32 = g.type().as(DType.F32);
            int owner = cut.partition().owner(name);
            sums.add(g.type().equals(f32) ? copy(g) : once(ShardedTraining.sumName(name), f32, ValueRole.GRADIENT));
            averages.add(g.type());
            owners.add(owner);
            if (owner == rank) {
                own.add(copy(g));
            }
        }
        List<OperandType> types = sums.stream().map(Value::type).toList();
        add("gradients", new AverageShares(types, averages, owners, rank, world), sums, own);
    }

    private void shareSquares() {
        if (!cut.sharesSquares()) {
            return;
        }
        List<Map.Entry<String, Value>> squares = new ArrayList<>();
        Map<String, Value> states = new HashMap<>();
        whole.values().forEach(v -> states.put(v.name(), v));
        cut.whole().squares().forEach((name, v) -> {
            if (cut.partition().owners().containsKey(name)) {
                squares.add(Map.entry(name, requireNonNull(states.get(v.name()), v.name())));
            }
        });
        share("squares", squares);
    }

    private void shareWeights(List<String> bucket) {
        List<Map.Entry<String, Value>> weights = new ArrayList<>();
        for (String name : bucket) {
            Shape shape =
                    requireNonNull(whole.gradients().get(name), name).type().shape();
            for (String part : cut.states().parameter(name, shape).names(name, shape)) {
                whole.values().stream()
                        .filter(v -> v.name().equals(part))
                        .findFirst()
                        .ifPresent(v -> weights.add(Map.entry(name, v)));
            }
        }
        share("weights", weights);
    }

    /** @param all values, each with the parameter that it is of */
    private void share(String node, List<Map.Entry<String, Value>> all) {
        List<Value> own = new ArrayList<>();
        List<Value> others = new ArrayList<>();
        List<OperandType> types = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        all.forEach(entry -> {
            int owner = cut.partition().owner(entry.getKey());
            Value v = copy(entry.getValue());
            (owner == rank ? own : others).add(v);
            types.add(v.type());
            owners.add(owner);
        });
        add(node, new ShareValues(types, owners, rank, world), own, others);
    }

    private void add(String node, Op op, List<Value> inputs, List<Value> outputs) {
        steps.add(new Step(Phase.UPDATE, node, op, false, inputs, outputs, List.of(), List.of(), Set.of()));
    }

    private Value once(String name, OperandType type, ValueRole role) {
        return named.computeIfAbsent(name, n -> fresh(n, type, role));
    }

    private Value fresh(String name, OperandType type, ValueRole role) {
        Value v = new Value(values.size(), name, type, role);
        values.add(v);
        return v;
    }

    private Value copy(Value of) {
        return copies.computeIfAbsent(of, v -> fresh(v.name(), v.type(), v.role()));
    }

    private Step copy(Step s) {
        return new Step(
                s.phase(),
                s.node(),
                s.op(),
                s.backward(),
                copy(s.inputs()),
                copy(s.outputs()),
                copy(s.upstream()),
                copy(s.gradients()),
                s.accumulated(),
                s.repeats());
    }

    private List<@Nullable Value> copy(List<@Nullable Value> all) {
        List<@Nullable Value> names = new ArrayList<>();
        for (Value v : all) {
            names.add(v == null ? null : copy(v));
        }
        return names;
    }

    private Map<String, Value> kept(Map<String, Value> of) {
        Map<String, Value> kept = new LinkedHashMap<>();
        of.forEach((name, v) -> {
            Value copy = copies.get(v);
            if (copy != null) {
                kept.put(name, copy);
            }
        });
        return kept;
    }

    private <T> Map<Value, T> keys(Map<Value, T> of) {
        Map<Value, T> kept = new LinkedHashMap<>();
        of.forEach((v, x) -> {
            Value copy = copies.get(v);
            if (copy != null) {
                kept.put(copy, x);
            }
        });
        return kept;
    }
}
