package dev.octet.trainer.shard;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.shard.AverageShares;
import dev.octet.trainer.op.shard.ZeroFill;
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

/**
 * Cuts the gradients of a training program. Where a rank computes one micro-batch in a step, those of other ranks become temporary values: as soon as backward has completed a
 * bucket, it is averaged to its owners, and its memory serves what is computed next. Where a rank computes several, their gradients are temporary and are added to a sum,
 * from which the update averages; adding up averages instead would be another order of additions.
 */
final class ShardedTraining {
    private final Program training;
    private final Sharding sharding;
    private final int rank;
    private final Collectives world;
    private final List<Value> values;
    private final List<Step> steps = new ArrayList<>();
    /** What backward adds into, by the gradient of the plain program. */
    private final Map<Value, Value> into = new HashMap<>();

    ShardedTraining(Program training, Sharding sharding, int rank, Collectives world) {
        this.training = training;
        this.sharding = sharding;
        this.rank = rank;
        this.world = world;
        this.values = new ArrayList<>(training.values());
    }

    Program program() {
        Map<String, Value> lasting = new LinkedHashMap<>();
        training.gradients().forEach((name, g) -> {
            if (!sharding.cutsGradient(name)) {
                lasting.put(name, g);
            } else if (sharding.accumulates()) {
                into.put(g, fresh(g.name(), g.type(), ValueRole.TEMPORARY));
                lasting.put(name, sum(name, g));
            } else if (sharding.partition().owner(name) == rank) {
                lasting.put(name, g);
            } else {
                Value passing = new Value(g.id(), g.name(), g.type(), ValueRole.TEMPORARY);
                values.set(g.id(), passing);
                into.put(g, passing);
            }
        });
        write(GradientLives.of(training), lasting);
        return new Program(
                values,
                steps,
                training.inputs(),
                training.outputs(),
                lasting,
                training.constants(),
                training.stored(),
                training.initialStates());
    }

    /** Where the micro-batches of this rank are added up, in F32. */
    private Value sum(String name, Value g) {
        if (g.type().dtype() == DType.F32) {
            return g;
        }
        // the average of an owner lies in g, and is the update's alone
        values.set(g.id(), new Value(g.id(), g.name(), g.type(), ValueRole.TEMPORARY));
        return fresh(sumName(name), g.type().as(DType.F32), ValueRole.GRADIENT);
    }

    /** Name of the sum of a gradient that is itself not kept in F32. */
    static String sumName(String parameter) {
        return "d:" + parameter + "@sum";
    }

    private Value fresh(String name, OperandType type, ValueRole role) {
        Value v = new Value(values.size(), name, type, role);
        values.add(v);
        return v;
    }

    private void write(GradientLives lives, Map<String, Value> lasting) {
        Map<Integer, List<String>> begins = byStep(lives.first());
        Map<Integer, List<String>> ends = byStep(lives.last());
        Set<String> complete = new HashSet<>();
        int averaged = 0;
        for (int i = 0; i < training.steps().size(); i++) {
            for (String name : begins.getOrDefault(i, List.of())) {
                Value passing = into.get(gradient(name));
                if (passing != null) {
                    add(name, new ZeroFill(passing.type()), List.of(), List.of(passing));
                }
            }
            steps.add(training.steps().get(i).with(into));
            for (String name : ends.getOrDefault(i, List.of())) {
                complete.add(name);
                if (sharding.accumulates() && sharding.cutsGradient(name)) {
                    Value sum = requireNonNull(lasting.get(name));
                    Value passing = requireNonNull(into.get(gradient(name)));
                    add(name, new Accumulate(sum.type(), passing.type()), List.of(sum, passing), List.of(sum));
                }
            }
            List<List<String>> buckets = sharding.gradientBuckets();
            while (!sharding.accumulates()
                    && averaged < buckets.size()
                    && complete.containsAll(buckets.get(averaged))) {
                average(buckets.get(averaged));
                averaged++;
            }
        }
    }

    private static Map<Integer, List<String>> byStep(Map<String, Integer> numbers) {
        Map<Integer, List<String>> names = new HashMap<>();
        numbers.forEach(
                (name, i) -> names.computeIfAbsent(i, _ -> new ArrayList<>()).add(name));
        return names;
    }

    private Value gradient(String name) {
        return requireNonNull(training.gradients().get(name), name);
    }

    private void average(List<String> bucket) {
        List<Value> inputs = new ArrayList<>();
        List<Value> own = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        for (String name : bucket) {
            Value g = gradient(name);
            int owner = sharding.partition().owner(name);
            owners.add(owner);
            inputs.add(into.getOrDefault(g, g));
            if (owner == rank) {
                own.add(g);
            }
        }
        List<OperandType> types = inputs.stream().map(Value::type).toList();
        add("gradients", new AverageShares(types, types, owners, rank, world), inputs, own);
    }

    private void add(String node, Op op, List<Value> inputs, List<Value> outputs) {
        steps.add(new Step(Phase.BACKWARD, node, op, false, inputs, outputs, List.of(), List.of(), Set.of()));
    }
}
