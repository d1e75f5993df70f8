package dev.octet.trainer.shard;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.PostValues;
import dev.octet.trainer.op.shard.TakeValues;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForms;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * A program cut into the parts of a pipeline. In forward a part takes what steps of its own or of later parts read and earlier ones have made, computes its steps, and passes on
 * what later parts read; backward passes gradients the other way. A value that several parts read goes from part to part, and so does its gradient, to which each adds what the
 * program adds in its place: the numbers are those of the program that is not cut.
 */
final class StagedProgram {
    /** The node of steps that pass values from part to part. */
    private static final String NODE = "stage";

    private final Program program;
    private final StateForms states;
    private final int stages;
    private final int parts;
    private final Roots roots;
    private final Preliminaries preliminaries;
    private final List<Step> steps = new ArrayList<>();
    /** Part of each step; -1 in PREPARE. */
    private final int[] partOf;
    /** Number of the step that first makes a value. */
    private final Map<Value, Integer> makers = new HashMap<>();

    /** Roots that pass in forward, with the last part that reads them; those whose gradient passes in backward, with the first. */
    private final Map<Value, Integer> lastReader = new HashMap<>();

    private final Map<Value, Integer> firstReader = new HashMap<>();

    /**
     * @param states how parameters are kept
     * @param stages how many there are, to which the parts are dealt out in turn
     */
    StagedProgram(Program program, StageCut cut, StateForms states, int stages) {
        this.program = program;
        this.states = states;
        this.stages = stages;
        this.parts = cut.parts();
        this.roots = Roots.of(program);
        this.preliminaries = Preliminaries.of(program);
        for (Phase phase : List.of(Phase.PREPARE, Phase.FORWARD, Phase.BACKWARD)) {
            steps.addAll(program.steps(phase));
        }
        List<Integer> found = cut.partsOf(program);
        int prepared = steps.size() - found.size();
        this.partOf = new int[steps.size()];
        for (int k = 0; k < partOf.length; k++) {
            partOf[k] = k < prepared ? -1 : found.get(k - prepared);
            for (Value v : steps.get(k).results()) {
                if (v != null) {
                    makers.putIfAbsent(v, k);
                }
            }
        }
        requireOneWriter(prepared);
        for (int k = prepared; k < partOf.length; k++) {
            if (!preliminaries.contains(steps.get(k))) {
                note(steps.get(k), partOf[k]);
            }
        }
    }

    /** Rejects a state that a part changes and another uses: stages tell each other nothing of it. */
    private void requireOneWriter(int prepared) {
        Map<Value, Integer> writers = new HashMap<>();
        for (int k = prepared; k < partOf.length; k++) {
            for (Value v : steps.get(k).results()) {
                if (v != null && v.role() == ValueRole.STATE) {
                    writers.put(v, partOf[k]);
                }
            }
        }
        for (int k = prepared; k < partOf.length; k++) {
            for (Value v : steps.get(k).operands()) {
                if (writers.getOrDefault(v, partOf[k]) != partOf[k]) {
                    throw new InvalidOptionException(
                            "a stage changes the state '" + v.name() + "', and another uses it",
                            "distributed.pipeline: " + stages + "; node '"
                                    + steps.get(k).node() + "'",
                            "choose another number of stages, or leave pipeline out");
                }
            }
        }
    }

    private void note(Step step, int part) {
        for (Value v : step.operands()) {
            Value root = roots.of(v);
            if (root.role() == ValueRole.TEMPORARY && !preliminaries.results().contains(root)) {
                if (step(root).phase() == Phase.FORWARD) {
                    lastReader.merge(root, part, Math::max);
                } else {
                    firstReader.merge(root, part, Math::min);
                }
            }
        }
    }

    /** The step that makes a value. */
    private Step step(Value v) {
        return steps.get(maker(v));
    }

    private int maker(Value v) {
        return requireNonNull(makers.get(v), () -> v + " is made by no step");
    }

    /** What passes from a part to the next in forward. */
    private List<Value> forwardFrom(int part) {
        return passing(lastReader, root -> partOf[maker(root)] <= part && lastReader.getOrDefault(root, -1) > part);
    }

    /** What passes from the part after one to it in backward. */
    private List<Value> backwardTo(int part) {
        return passing(
                firstReader, root -> partOf[maker(root)] > part && firstReader.getOrDefault(root, parts) <= part);
    }

    private static List<Value> passing(Map<Value, Integer> all, Predicate<Value> which) {
        return all.keySet().stream()
                .filter(which)
                .sorted(Comparator.comparingInt(Value::id))
                .toList();
    }

    /** Numbers of the steps of a part: its own, the views that it reads through, the preliminaries it needs, and what is prepared for them. */
    private SortedSet<Integer> stepsOf(int part) {
        TreeSet<Integer> own = new TreeSet<>();
        Deque<Integer> open = new ArrayDeque<>();
        for (int k = 0; k < partOf.length; k++) {
            if (partOf[k] == part && !preliminaries.contains(steps.get(k))) {
                own.add(k);
                open.add(k);
            }
        }
        while (!open.isEmpty()) {
            for (Value v : steps.get(open.remove()).operands()) {
                int maker = makers.getOrDefault(v, -1);
                boolean canBeMade = v.role() == ValueRole.PREPARED || v.role() == ValueRole.TEMPORARY;
                if (maker >= 0 && canBeMade && isForAll(maker) && own.add(maker)) {
                    open.add(maker);
                }
            }
        }
        return own;
    }

    /** Whether each part that needs what a step makes has the step itself. */
    private boolean isForAll(int step) {
        Step s = steps.get(step);
        return partOf[step] < 0 || s.isView() || preliminaries.contains(s);
    }

    /** Values that outlive a micro-batch and that a part uses. */
    Set<Value> lasting(int part) {
        return used(stepsOf(part).stream().map(steps::get).toList()).stream()
                .filter(v -> v.role().isShared())
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    /** The values of steps in their order, with all that stands for the parameters among them. */
    private List<Value> used(List<Step> own) {
        Set<Value> all = new HashSet<>();
        own.forEach(s -> all.addAll(s.operands()));
        Set<String> parts = new HashSet<>();
        for (Value v : all) {
            if (v.role() == ValueRole.PARAMETER) {
                Value g = program.gradients().get(v.name());
                Shape shape = (g == null ? v : g).type().shape();
                parts.addAll(states.parameter(v.name(), shape).names(v.name(), shape));
            }
        }
        return program.values().stream()
                .filter(v -> all.contains(v) || (v.role().isShared() && parts.contains(v.name())))
                .toList();
    }

    /**
     * The program of a part.
     *
     * @param pipeline the stages; not used before it runs
     */
    Program part(int part, Collectives pipeline) {
        List<Step> own = new ArrayList<>();
        SortedSet<Integer> numbers = stepsOf(part);
        for (Phase phase : List.of(Phase.PREPARE, Phase.FORWARD, Phase.BACKWARD)) {
            List<Step> of = numbers.stream()
                    .map(steps::get)
                    .filter(s -> s.phase() == phase)
                    .toList();
            boolean forward = phase == Phase.FORWARD;
            if (phase != Phase.PREPARE) {
                // to and from the part before and the one after: the other way round in backward
                int before = forward ? part - 1 : part;
                int after = forward ? part : part - 1;
                if (before >= 0 && before < parts - 1) {
                    take(own, phase, forward ? forwardFrom(before) : backwardTo(before), before, pipeline);
                }
                own.addAll(of);
                if (after >= 0 && after < parts - 1) {
                    post(own, phase, forward ? forwardFrom(after) : backwardTo(after), after, pipeline);
                }
            } else {
                own.addAll(of);
            }
        }
        return only(own, part);
    }

    /** Channel between a part and the one after it. */
    private static int channel(int part, Phase phase) {
        return 2 * part + (phase == Phase.FORWARD ? 0 : 1);
    }

    private void take(List<Step> own, Phase phase, List<Value> values, int between, Collectives pipeline) {
        int from = (phase == Phase.FORWARD ? between : between + 1) % stages;
        if (!values.isEmpty()) {
            List<OperandType> types = values.stream().map(Value::type).toList();
            add(own, phase, new TakeValues(types, from, channel(between, phase), pipeline), List.of(), values);
        }
    }

    private void post(List<Step> own, Phase phase, List<Value> values, int between, Collectives pipeline) {
        int to = (phase == Phase.FORWARD ? between + 1 : between) % stages;
        if (!values.isEmpty()) {
            List<OperandType> types = values.stream().map(Value::type).toList();
            add(own, phase, new PostValues(types, to, channel(between, phase), pipeline), values, List.of());
        }
    }

    private static void add(List<Step> own, Phase phase, Op op, List<Value> inputs, List<Value> outputs) {
        own.add(new Step(phase, NODE, op, false, inputs, outputs, List.of(), List.of(), Set.of()));
    }

    /** The program of some steps, with the values that they use. */
    private Program only(List<Step> own, int part) {
        Map<Value, Value> renumbered = new LinkedHashMap<>();
        for (Value v : used(own)) {
            renumbered.put(v, new Value(renumbered.size(), v.name(), v.type(), v.role()));
        }
        Map<String, Value> outputs = new LinkedHashMap<>();
        program.outputs().forEach((name, v) -> {
            Integer maker = makers.get(v);
            if (renumbered.containsKey(v) && (maker == null ? part == parts - 1 : partOf[maker] == part)) {
                outputs.put(name, requireNonNull(renumbered.get(v)));
            }
        });
        return new Program(
                List.copyOf(renumbered.values()),
                own.stream().map(s -> s.with(renumbered)).toList(),
                values(program.inputs(), renumbered),
                outputs,
                values(program.gradients(), renumbered),
                keys(program.constants(), renumbered),
                keys(program.stored(), renumbered),
                keys(program.initialStates(), renumbered));
    }

    private static Map<String, Value> values(Map<String, Value> of, Map<Value, Value> renumbered) {
        Map<String, Value> kept = new LinkedHashMap<>();
        of.forEach((name, v) -> {
            Value own = renumbered.get(v);
            if (own != null) {
                kept.put(name, own);
            }
        });
        return kept;
    }

    private static <T> Map<Value, T> keys(Map<Value, T> of, Map<Value, Value> renumbered) {
        Map<Value, T> kept = new LinkedHashMap<>();
        of.forEach((v, x) -> {
            Value own = renumbered.get(v);
            if (own != null) {
                kept.put(own, x);
            }
        });
        return kept;
    }
}
