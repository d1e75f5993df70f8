package dev.octet.trainer.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.shard.ShareValues;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Cuts the weights of a program for forward, or forward and backward. What steps read of them is given by its owner shortly before: as many weights as a bucket holds, at
 * least those of one step, live side by side on a rank that does not own them. What is cast once a step is cast by the owner, and travels as it was cast.
 */
final class ShardedWeights {
    private final Program program;
    private final int rank;
    private final Collectives world;
    private final Lending lending;
    private final List<Value> values;
    private final List<Step> steps = new ArrayList<>();
    private final Map<Value, Integer> owners = new HashMap<>();
    private final List<String> order = new ArrayList<>();

    /** What the steps now written read in place of the values of other ranks. */
    private final Map<Value, Value> lent = new HashMap<>();

    /** Steps that read the weights of one message. */
    private record Segment(int first, Set<Value> reads) {}

    /**
     * What travels, and how.
     *
     * @param owners by name of what stands for a weight
     * @param bucketBytes of weights that travel together
     * @param showsWeights whether weights in F32 travel to the Linears that read their codes, too
     */
    record Lending(Map<String, Integer> owners, long bucketBytes, boolean showsWeights) {}

    ShardedWeights(Program program, Lending lending, int rank, Collectives world) {
        this.program = program;
        this.rank = rank;
        this.world = world;
        this.lending = lending;
        this.values = new ArrayList<>(program.values());
        for (Value v : program.values()) {
            Integer owner = v.role() == ValueRole.PARAMETER || v.role() == ValueRole.STATE
                    ? lending.owners().get(v.name())
                    : null;
            if (owner != null) {
                owners.put(v, owner);
            }
        }
    }

    /** Weights in the order in which they travel, which must be that of all ranks. */
    List<String> order() {
        return order;
    }

    Program program() {
        List<Step> all = new ArrayList<>();
        for (Step step : program.steps()) {
            Integer owner = preparer(step);
            if (owner != null) {
                step.results().forEach(v -> {
                    if (v != null && v.role() != ValueRole.STATE) {
                        owners.put(v, owner);
                    }
                });
            }
            if (owner == null || owner == rank) {
                all.add(withoutUnread(step));
            }
        }
        write(all);
        owners.forEach((v, owner) -> {
            if (owner != rank) {
                values.set(v.id(), new Value(v.id(), v.name(), v.type(), ValueRole.TEMPORARY));
            }
        });
        Map<Value, List<Float>> initial = new LinkedHashMap<>(program.initialStates());
        initial.keySet().removeIf(v -> owners.getOrDefault(v, rank) != rank);
        return new Program(
                values,
                steps,
                program.inputs(),
                program.outputs(),
                program.gradients(),
                program.constants(),
                program.stored(),
                initial);
    }

    /** The step without shared weights that it names and does not read: products on codes have no need of the floats. */
    private Step withoutUnread(Step step) {
        List<@Nullable Value> read = new ArrayList<>();
        for (int i = 0; i < step.inputs().size(); i++) {
            Value v = step.inputs().get(i);
            boolean unread = !step.backward()
                    && !isShown(step)
                    && v != null
                    && owners.containsKey(v)
                    && !step.op().forwardReadsInput(i);
            read.add(unread ? null : v);
        }
        return read.equals(step.inputs()) ? step : step.withInputs(read);
    }

    private boolean isShown(Step step) {
        return lending.showsWeights() && step.op() instanceof Fp8Linear;
    }

    /** The rank that alone does a step before the others: one that makes something of its own weights for the whole step. */
    private @Nullable Integer preparer(Step step) {
        Set<Integer> of = new LinkedHashSet<>();
        step.inputs().forEach(v -> {
            if (v != null && owners.containsKey(v)) {
                of.add(owners.get(v));
            }
        });
        // the amax that a delayed cast leaves in its history is shared by the ranks after the micro-batch
        boolean leavesValues = step.op() instanceof QuantizeFp8Delayed
                || step.results().stream()
                        .allMatch(v -> v == null || v.role() == ValueRole.PREPARED || v.role() == ValueRole.TEMPORARY);
        return step.phase() == Phase.PREPARE && of.size() == 1 && leavesValues
                ? of.iterator().next()
                : null;
    }

    private void write(List<Step> all) {
        List<Segment> segments = segments(all);
        int next = 0;
        for (int i = 0; i < all.size(); i++) {
            if (next < segments.size() && segments.get(next).first == i) {
                lend(all.get(i).phase(), segments.get(next).reads);
                next++;
            }
            steps.add(all.get(i).with(lent));
        }
    }

    private List<Segment> segments(List<Step> all) {
        List<Segment> segments = new ArrayList<>();
        Phase phase = null;
        long bytes = 0;
        for (int i = 0; i < all.size(); i++) {
            Step step = all.get(i);
            Set<Value> reads = new LinkedHashSet<>(step.operands());
            reads.retainAll(owners.keySet());
            if (step.phase() == Phase.PREPARE && preparer(step) != null) {
                continue;
            }
            Set<Value> missing = new LinkedHashSet<>(reads);
            if (!segments.isEmpty() && step.phase() == phase) {
                missing.removeAll(segments.getLast().reads);
            }
            if (missing.isEmpty()) {
                continue;
            }
            long more = missing.stream().mapToLong(v -> v.type().byteSize()).sum();
            if (segments.isEmpty() || step.phase() != phase || bytes + more > lending.bucketBytes()) {
                segments.add(new Segment(i, reads));
                bytes = reads.stream().mapToLong(v -> v.type().byteSize()).sum();
                phase = step.phase();
            } else {
                segments.getLast().reads.addAll(missing);
                bytes += more;
            }
        }
        return segments;
    }

    private void lend(Phase phase, Set<Value> reads) {
        lent.clear();
        List<Value> own = new ArrayList<>();
        List<Value> others = new ArrayList<>();
        List<OperandType> types = new ArrayList<>();
        List<Integer> of = new ArrayList<>();
        order.add(phase.name());
        for (Value v : reads) {
            int owner = owners.getOrDefault(v, rank);
            if (owner == rank) {
                own.add(v);
            } else {
                Value copy = new Value(values.size(), v.name(), v.type(), ValueRole.TEMPORARY);
                values.add(copy);
                lent.put(v, copy);
                others.add(copy);
            }
            types.add(v.type());
            of.add(owner);
            order.add(v.name());
        }
        steps.add(new Step(
                phase,
                "weights",
                new ShareValues(types, of, rank, world),
                false,
                own,
                others,
                List.of(),
                List.of(),
                Set.of(),
                false));
    }
}
