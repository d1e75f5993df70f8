package dev.octet.trainer;

import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.cut.Part;
import java.lang.foreign.Arena;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What a run was after a step, in memory, to go back to: weights, moments, scales and numbers. It takes as much memory as these, and is part of
 * checkpoints, so that a resumed run can go back as far. Of a run on ranks each has a snapshot of what it keeps.
 */
final class RunSnapshot implements AutoCloseable {
    private static final String PREFIX = "guard.snapshot.";
    private static final String STEP = PREFIX + "step";
    private static final String NUMBER = PREFIX + "number.";
    private static final String PARAMETER = PREFIX + "parameter:";
    private static final String STATE = PREFIX + "state:";

    private final Arena arena;
    private final long step;
    private final Map<String, Tensor> parameters;
    private final Map<String, Tensor> state;
    private final Map<String, String> numbers;

    private RunSnapshot(
            Arena arena,
            long step,
            Map<String, Tensor> parameters,
            Map<String, Tensor> state,
            Map<String, String> numbers) {
        this.arena = arena;
        this.step = step;
        this.parameters = parameters;
        this.state = state;
        this.numbers = new TreeMap<>(numbers);
    }

    /**
     * A snapshot of a run: of one that trains an adapter, with the adapter's weights.
     *
     * @param numbers of the run, as a checkpoint has them
     */
    static RunSnapshot of(Trainer trainer, long step, Map<String, String> numbers) {
        Arena arena = Arena.ofConfined();
        Map<String, Tensor> parameters = new TreeMap<>();
        try (Arena views = Arena.ofConfined()) {
            trainer.keptParameters(views).forEach((name, t) -> parameters.put(name, copy(name, t, arena)));
        }
        return new RunSnapshot(arena, step, parameters, trainer.session().state(arena), numbers);
    }

    /** What a rank writes of it, by name. */
    record Share(Set<String> parameters, Set<String> states) {
        Share {
            parameters = Set.copyOf(parameters);
            states = Set.copyOf(states);
        }
    }

    /** All of it. */
    Share whole() {
        return new Share(parameters.keySet(), state.keySet());
    }

    long step() {
        return step;
    }

    Map<String, Tensor> parameters() {
        return parameters;
    }

    Map<String, Tensor> state() {
        return state;
    }

    Map<String, String> numbers() {
        return numbers;
    }

    /** Numbers that are different from now on although the rest is not: what the guard remembers of a rollback. */
    void replaceNumbers(String prefix, Map<String, String> other) {
        numbers.keySet().removeIf(key -> key.startsWith(prefix));
        other.forEach((key, value) -> numbers.put(prefix + key, value));
    }

    /**
     * Adds it to the numbers of a checkpoint, and to its state unless the checkpoint is of the same step and has all of that.
     *
     * @param share what this rank writes
     */
    void addTo(long checkpoint, Map<String, String> allNumbers, Map<String, Tensor> allState, Share share) {
        allNumbers.put(STEP, Long.toString(step));
        if (checkpoint != step) {
            numbers.forEach((key, value) -> allNumbers.put(NUMBER + key, value));
            parameters.forEach((name, tensor) -> {
                if (share.parameters.contains(name)) {
                    allState.put(PARAMETER + name, tensor);
                }
            });
            state.forEach((name, tensor) -> {
                if (share.states.contains(name)) {
                    allState.put(STATE + name, tensor);
                }
            });
        }
    }

    /**
     * What this rank has of tensors that are cut, with those of its snapshot.
     *
     * @param parts by name, without it
     */
    Map<String, Part> with(Map<String, Part> parts) {
        Map<String, Part> all = new TreeMap<>(parts);
        parts.forEach((name, part) -> {
            Tensor parameter = parameters.get(name);
            // the weights of an adapter are whole
            if (parameter != null && parameter.shape().equals(part.shape())) {
                all.put(PARAMETER + name, part);
            }
            if (state.containsKey(name)) {
                all.put(STATE + name, part);
            }
        });
        return all;
    }

    /** Whether a tensor among the state of a checkpoint belongs to a snapshot. */
    static boolean holds(String name) {
        return name.startsWith(PREFIX);
    }

    /** Whether a checkpoint has a snapshot. */
    static boolean isIn(Map<String, String> allNumbers) {
        return allNumbers.containsKey(STEP);
    }

    /**
     * Reads it from a checkpoint, whose ranks may have shared it out otherwise.
     *
     * @param trainer whose programs are built where ranks share out what there is
     * @throws NumberFormatException when its step is not a number
     */
    static RunSnapshot from(Trainer trainer, TrainingState checkpoint) {
        Map<String, String> allNumbers = checkpoint.numbers();
        long step = Long.parseLong(allNumbers.getOrDefault(STEP, ""));
        Map<String, String> numbers = new TreeMap<>();
        Map<String, Tensor> parameters = new TreeMap<>();
        Map<String, Tensor> state = new TreeMap<>();
        boolean same = step == checkpoint.step();
        if (same) {
            parameters.putAll(checkpoint.parameters());
        }
        checkpoint.state().forEach((name, t) -> {
            if (same && !holds(name)) {
                state.put(name, t);
            } else if (name.startsWith(PARAMETER)) {
                parameters.put(name.substring(PARAMETER.length()), t);
            } else if (name.startsWith(STATE)) {
                state.put(name.substring(STATE.length()), t);
            }
        });
        allNumbers.forEach((key, value) -> {
            if (same && !key.startsWith(PREFIX)) {
                numbers.put(key, value);
            } else if (key.startsWith(NUMBER)) {
                numbers.put(key.substring(NUMBER.length()), value);
            }
        });
        Arena arena = Arena.ofConfined();
        // all ranks keep all of an adapter
        Map<String, Tensor> own =
                trainer.adapts() ? parameters : trainer.session().ownParameters(parameters);
        return new RunSnapshot(
                arena, step, copies(own, arena), copies(trainer.session().ownStates(state), arena), numbers);
    }

    private static Map<String, Tensor> copies(Map<String, Tensor> tensors, Arena arena) {
        Map<String, Tensor> copies = new TreeMap<>();
        tensors.forEach((name, t) -> copies.put(name, copy(name, t, arena)));
        return copies;
    }

    private static Tensor copy(String name, Tensor tensor, Arena arena) {
        Tensor copy = Tensor.allocate(arena, new TensorSpec(name, tensor.dtype(), tensor.shape()));
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    @Override
    public void close() {
        arena.close();
    }
}
