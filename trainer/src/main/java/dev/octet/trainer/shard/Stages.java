package dev.octet.trainer.shard;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.fp8.WindowUpdate;
import dev.octet.trainer.op.shard.PostValues;
import dev.octet.trainer.op.shard.TakeValues;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForms;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The programs of a run, dealt out to the stages of a pipeline. Part p of the model is chunk {@code p / stages} of stage {@code p % stages}. A stage has the weights that its
 * steps read, and their gradients; a parameter belongs to the stage of the first part that has its gradient, which updates it. Where other stages read it, too, as the head of a model whose
 * embedding is tied to it, they post their gradients to that stage, which adds them to its own in the order of stages, and get the new weights.
 *
 * <p>What a stage has follows from the first training program; it is the same on all ranks and for all shapes of micro-batches.
 */
public final class Stages {
    /** Digits of a digest. */
    private static final int SHOWN = 16;

    private final int count;
    private final int chunks;
    private final StageCut cut;
    private final Program training;
    private final UpdateProgram whole;
    private final StateForms states;
    /** Names of what outlives a micro-batch, by stage. */
    private final List<Set<String>> lasting = new ArrayList<>();
    /** Stages that have the gradient of a parameter, the owner first. */
    private final Map<String, List<Integer>> having = new LinkedHashMap<>();

    /**
     * Deals out a run.
     *
     * @param model a training program of the whole model, from which follows where it is cut
     * @param training the same of the ranks that share its layers, or the same program
     * @param whole the update that belongs to {@code training}
     * @param states how parameters are kept
     * @param count how many stages there are
     * @param chunks of each
     * @throws InvalidOptionException when the model cannot be cut into so many parts
     */
    public Stages(Program model, Program training, UpdateProgram whole, StateForms states, int count, int chunks) {
        this.count = count;
        this.chunks = chunks;
        this.training = training;
        this.whole = whole;
        this.states = states;
        this.cut = StageCut.of(model, count, chunks);
        StagedProgram staged = new StagedProgram(training, cut, states, count);
        for (int s = 0; s < count; s++) {
            lasting.add(new TreeSet<>());
        }
        Map<Value, Set<Integer>> gradients = new LinkedHashMap<>();
        for (int p = 0; p < cut.parts(); p++) {
            int stage = p % count;
            for (Value v : staged.lasting(p)) {
                lasting.get(stage).add(v.name());
                gradients.computeIfAbsent(v, _ -> new LinkedHashSet<>()).add(stage); // in the order of parts
            }
        }
        training.gradients().forEach((name, g) -> having.put(name, List.copyOf(gradients.getOrDefault(g, Set.of()))));
        having.values().removeIf(List::isEmpty);
    }

    /**
     * A program of forward and backward, or of forward alone: the part of it that is a stage's chunk.
     *
     * @param plain not cut
     * @param pipeline the stages; not used before the program runs
     */
    public Program program(Program plain, int stage, int chunk, Collectives pipeline) {
        return new StagedProgram(plain, cut, states, count).part(chunk * count + stage, pipeline);
    }

    /** Whether a stage's chunk is the last part of the model, which has the loss. */
    public boolean isLast(int stage, int chunk) {
        return chunk * count + stage == cut.parts() - 1;
    }

    /** The stage that updates a parameter. */
    private int owner(String parameter) {
        return requireNonNull(having.get(parameter), parameter).getFirst();
    }

    /** A program without steps that has the gradients of a stage's steps, also of parameters that another stage updates. */
    public Program gradients(int stage) {
        return some(name -> requireNonNull(having.get(name)).contains(stage));
    }

    /** The same of the parameters that a stage updates, and with the weights that it alone has. */
    public Program owned(int stage) {
        Program gradients = some(name -> owner(name) == stage);
        List<Value> values = new ArrayList<>(gradients.values());
        for (Value v : training.values()) {
            long having = lasting.stream().filter(l -> l.contains(v.name())).count();
            if (v.role() == ValueRole.PARAMETER
                    && having == 1
                    && lasting.get(stage).contains(v.name())) {
                values.add(new Value(values.size(), v.name(), v.type(), v.role()));
            }
        }
        return gradients.with(values, List.of());
    }

    /** Parameters that several stages read, of those whose gradients a stage has. */
    public Set<String> shared(int stage) {
        Set<String> names = new TreeSet<>();
        having.forEach((name, all) -> {
            if (all.size() > 1 && all.contains(stage)) {
                names.add(name);
            }
        });
        return names;
    }

    /** As {@link #gradients}, of such parameters alone. */
    public Program sharedGradients(int stage) {
        return some(shared(stage)::contains);
    }

    private Program some(Predicate<String> which) {
        List<Value> values = new ArrayList<>();
        Map<String, Value> gradients = new LinkedHashMap<>();
        training.gradients().forEach((name, g) -> {
            if (having.containsKey(name) && which.test(name)) {
                Value own = new Value(values.size(), g.name(), g.type(), g.role());
                values.add(own);
                gradients.put(name, own);
            }
        });
        return new Program(values, List.of(), Map.of(), Map.of(), gradients, Map.of(), Map.of(), Map.of());
    }

    /**
     * The update on a stage: of the parameters it owns, with the norm of all.
     *
     * @param pipeline the stages; not used before the program runs
     */
    public UpdateProgram update(int stage, Collectives pipeline) {
        UpdateFacts facts = UpdateFacts.of(training, whole);
        Map<String, Integer> owners = new LinkedHashMap<>();
        facts.parameters().keySet().forEach(name -> owners.put(name, owner(name)));
        UpdateProgram own = whole.with(whole.program().with(whole.program().values(), stepsOf(stage)));
        UpdateCut each = new UpdateCut(own, facts, new Partition(count, owners), true, List.of(), List.of(), states);
        return whole.with(new ShardedUpdate(each, stage, pipeline).program());
    }

    /** The steps of the update, in which windows of amaxes are those of a stage's own layers. */
    private List<Step> stepsOf(int stage) {
        List<Step> steps = new ArrayList<>();
        for (Step s : whole.program().steps()) {
            if (!(s.op() instanceof WindowUpdate op)) {
                steps.add(s);
                continue;
            }
            List<WindowUpdate.Slot> slots = new ArrayList<>();
            List<@Nullable Value> inputs = new ArrayList<>(s.inputs().subList(0, 1));
            List<@Nullable Value> states = new ArrayList<>();
            for (int i = 0; i < op.slots().size(); i++) {
                Value window = requireNonNull(s.outputs().get(2 * i + 1));
                if (lasting.get(stage).contains(window.name())) {
                    slots.add(op.slots().get(i));
                    states.add(s.outputs().get(2 * i));
                    states.add(window);
                }
            }
            inputs.addAll(states);
            if (!slots.isEmpty()) {
                steps.add(new Step(
                        s.phase(),
                        s.node(),
                        new WindowUpdate(slots),
                        false,
                        inputs,
                        states,
                        List.of(),
                        List.of(),
                        Set.of()));
            }
        }
        return steps;
    }

    /** What a stage runs before the update: gradients of parameters that several stages have come together where they are updated. */
    public Program beforeUpdate(int stage, Collectives pipeline) {
        ProgramBuilder builder = new ProgramBuilder();
        int channel = 2 * cut.parts();
        having.forEach((name, all) -> {
            OperandType type = requireNonNull(training.gradients().get(name)).type();
            if (all.indexOf(stage) > 0) {
                builder.step(
                        Phase.UPDATE,
                        name,
                        new PostValues(List.of(type), all.getFirst(), channel, pipeline),
                        List.of(builder.gradient(name, type)),
                        List.of());
            } else if (all.getFirst() == stage) {
                for (int other : all.subList(1, all.size())) {
                    Value sum = builder.gradient(name, type);
                    Value part = builder.temporary("of stage " + other + ": " + sum.name(), type);
                    TakeValues take = new TakeValues(List.of(type), other, channel, pipeline);
                    builder.step(Phase.UPDATE, name, take, List.of(), List.of(part));
                    builder.step(Phase.UPDATE, name, new Accumulate(type, type), List.of(sum, part), List.of(sum));
                }
            }
        });
        return builder.build();
    }

    /** What a stage runs after the update: the new weights of such parameters go where else they are read. */
    public Program afterUpdate(int stage, Collectives pipeline) {
        ProgramBuilder builder = new ProgramBuilder();
        int channel = 2 * cut.parts() + 1;
        having.forEach((name, all) -> {
            for (Value v : kept(name)) {
                for (int other = 0; other < count; other++) {
                    boolean passes =
                            other != all.getFirst() && lasting.get(other).contains(v.name());
                    List<Value> own = passes && (stage == all.getFirst() || stage == other)
                            ? List.of(
                                    v.role() == ValueRole.PARAMETER
                                            ? builder.parameter(v.name(), v.type())
                                            : builder.state(v.name(), v.type()))
                            : List.of();
                    if (!own.isEmpty() && stage == other) {
                        TakeValues take = new TakeValues(List.of(v.type()), all.getFirst(), channel, pipeline);
                        builder.step(Phase.UPDATE, name, take, List.of(), own);
                    } else if (!own.isEmpty()) {
                        PostValues post = new PostValues(List.of(v.type()), other, channel, pipeline);
                        builder.step(Phase.UPDATE, name, post, List.copyOf(own), List.of());
                    }
                }
            }
        });
        return builder.build();
    }

    /** What stands for a parameter. */
    private List<Value> kept(String name) {
        Shape shape = requireNonNull(training.gradients().get(name)).type().shape();
        List<String> names = states.parameter(name, shape).names(name, shape);
        return training.values().stream()
                .filter(v -> v.role().isShared() && names.contains(v.name()))
                .toList();
    }

    /** Weights of all stages, with their shapes. */
    public Map<String, Shape> weights() {
        Map<String, Shape> weights = new TreeMap<>();
        for (Value v : training.values()) {
            if (v.role() == ValueRole.PARAMETER) {
                Value g = training.gradients().get(v.name());
                weights.put(v.name(), g == null ? v.type().shape() : g.type().shape());
            }
        }
        return weights;
    }

    /** What all ranks must agree on, as a digest of names in their order. */
    public String text() {
        String all = cut.partOf() + " " + having;
        return Sha256.of(all.getBytes(StandardCharsets.UTF_8)).substring(0, SHOWN);
    }

    /**
     * A part of the model.
     *
     * @param first node
     * @param last node
     * @param share of the operations and bytes of a micro-batch, from 0 to 1
     */
    public record Part(int stage, int chunk, String first, String last, double share) {}

    /** All parts in their order. */
    public List<Part> parts() {
        List<Part> all = new ArrayList<>();
        long[] weight = new long[cut.parts()];
        long sum = 0;
        for (Step s : training.steps()) {
            Integer part = cut.partOf().get(s.node());
            if (part != null && (s.phase() == Phase.FORWARD || s.phase() == Phase.BACKWARD)) {
                weight[part] += StepCost.of(s).weight();
                sum += StepCost.of(s).weight();
            }
        }
        for (int p = 0; p < cut.parts(); p++) {
            int part = p;
            List<String> nodes = cut.partOf().entrySet().stream()
                    .filter(e -> e.getValue() == part)
                    .map(Map.Entry::getKey)
                    .toList();
            all.add(new Part(
                    p % count, p / count, nodes.getFirst(), nodes.getLast(), (double) weight[p] / Math.max(1, sum)));
        }
        return Collections.unmodifiableList(all);
    }

    /** Chunks of a stage. */
    public int chunks() {
        return chunks;
    }
}
