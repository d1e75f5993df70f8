package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Item;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * The weights among what a training program saved: which of the things in nested dicts are tensors of the model, and what they are called in it. Programs put a
 * state dict under a key of their own ({@code model}, {@code state_dict}) next to the optimizer's, and wrap modules, which shows in names.
 *
 * @param names name in the model by what it was found as, in order
 * @param extraStates of FP8 training, by module, in order
 * @param notes what was left out or renamed, a sentence each
 */
public record StateDict<T>(Map<String, T> names, Map<String, T> extraStates, List<String> notes) {
    /** What programs call a state dict in what they save. */
    private static final Set<String> CONTAINERS = Set.of(
            "model", "module", "state_dict", "model_state_dict", "model_state", "app", "net", "network", "weights");

    /** What programs call things that are no weights. */
    private static final Set<String> STATES = Set.of(
            "optim",
            "optimizer",
            "optimizers",
            "optimizer_states",
            "optimizer_state",
            "optimizer_state_dict",
            "opt",
            "opt_state",
            "lr_scheduler",
            "lr_schedulers",
            "lr_scheduler_state_dict",
            "scheduler",
            "schedulers",
            "scheduler_state_dict",
            "opt_param_scheduler",
            "scaler",
            "grad_scaler",
            "loss_scaler",
            "rng",
            "rng_state",
            "rng_states",
            "train_state",
            "trainer",
            "dataloader",
            "data_loader",
            "loops",
            "callbacks",
            "rerun_state_machine");

    /** What wrappers of modules add to names. */
    private static final List<String> WRAPPERS =
            List.of("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.");

    private static final String PARALLEL = "module.";
    private static final int MAX_DEPTH = 32;
    private static final int MAX_VALUES = 1 << 22;

    public StateDict {
        names = Collections.unmodifiableMap(new LinkedHashMap<>(names));
        extraStates = Collections.unmodifiableMap(new LinkedHashMap<>(extraStates));
        notes = List.copyOf(notes);
    }

    /**
     * A thing that was saved.
     *
     * @param path keys of the dicts around it, its own last
     */
    public record Saved<T>(List<String> path, T value) {
        public Saved {
            path = List.copyOf(path);
        }

        /** A thing of which only the keys joined by dots are known. */
        public static <T> Saved<T> ofKey(String key, T value) {
            int dot = key.indexOf('.');
            boolean state = dot > 0 && STATES.contains(key.substring(0, dot));
            return new Saved<>(state ? List.of(key.substring(0, dot), key.substring(dot + 1)) : List.of(key), value);
        }
    }

    /**
     * All tensors of an object that was saved, and the states of FP8 training that are no tensors.
     *
     * @param where the file, for messages
     */
    public static List<Saved<PickleValue>> tensors(PickleValue root, String where) {
        List<Saved<PickleValue>> found = new ArrayList<>();
        collect(root, List.of(), found, new int[1], where);
        return found;
    }

    private static void collect(
            PickleValue value, List<String> path, List<Saved<PickleValue>> found, int[] steps, String where) {
        if (++steps[0] > MAX_VALUES || path.size() > MAX_DEPTH) {
            throw new MalformedModelException(
                    "the saved values are nested more than " + MAX_DEPTH + " deep, or more than " + MAX_VALUES,
                    where,
                    "save the model's state_dict() alone");
        }
        boolean extraState = !path.isEmpty() && path.getLast().endsWith(ExtraState.NAME);
        if (TorchFile.isTensor(value) || (extraState && value instanceof Instance)) {
            found.add(new Saved<>(path.isEmpty() ? List.of("tensor") : path, value));
            return;
        }
        List<Item> items = switch (value) {
            case Dict dict -> dict.items();
            case Instance instance when instance.state() instanceof Dict state -> state.items();
            default -> List.of();
        };
        for (Item item : items) {
            if (text(item.key()).isPresent()) {
                collect(item.value(), with(path, text(item.key()).get()), found, steps, where);
            }
        }
        if (value instanceof Sequence sequence) {
            for (int i = 0; i < sequence.items().size(); i++) {
                collect(sequence.items().get(i), with(path, String.valueOf(i)), found, steps, where);
            }
        }
    }

    private static Optional<String> text(PickleValue key) {
        return switch (key) {
            case Text(String text) -> Optional.of(text);
            case PickleValue.Int(var number) -> Optional.of(number.toString());
            default -> Optional.empty();
        };
    }

    private static List<String> with(List<String> path, String key) {
        List<String> longer = new ArrayList<>(path);
        longer.add(key);
        return longer;
    }

    /**
     * Picks the weights and names them.
     *
     * @param saved all that was saved, in order
     * @param where the file, for messages
     * @throws UnsupportedModelException when two get the same name
     */
    public static <T> StateDict<T> of(List<Saved<T>> saved, String where) {
        boolean contained = saved.stream().anyMatch(s -> isContained(s.path()));
        Map<String, Integer> leftOut = new TreeMap<>();
        Map<String, T> found = new LinkedHashMap<>();
        Map<String, T> extraStates = new LinkedHashMap<>();
        boolean wrapped = false;
        for (Saved<T> s : saved) {
            String category = category(s.path(), contained);
            if (!category.isEmpty()) {
                leftOut.merge(category, 1, Integer::sum);
                continue;
            }
            String full = String.join(
                    ".", s.path().subList(containers(s.path()), s.path().size()));
            String name = full;
            for (String wrapper : WRAPPERS) {
                name = name.replace(wrapper, "");
            }
            if (full.endsWith(ExtraState.NAME)) {
                extraStates.putIfAbsent(ExtraState.moduleOf(name), s.value());
                continue;
            }
            wrapped |= !name.equals(full);
            put(found, name, s.value(), where);
        }
        List<String> notes = new ArrayList<>();
        Map<String, T> names = found;
        if (!found.isEmpty() && found.keySet().stream().allMatch(n -> n.startsWith(PARALLEL))) {
            wrapped = true;
            names = unwrapped(found);
            extraStates = unwrapped(extraStates);
        }
        if (wrapped) {
            notes.add("names are without what wrappers of modules added to them");
        }
        leftOut.forEach((category, count) -> notes.add(count
                + (count == 1 ? " tensor under '" : " tensors under '")
                + category
                + (count == 1 ? "' is left out: no weight" : "' are left out: no weights")));
        if (!extraStates.isEmpty()) {
            notes.add(ExtraState.leftOut(extraStates.size()));
        }
        return new StateDict<>(names, extraStates, notes);
    }

    private static <T> Map<String, T> unwrapped(Map<String, T> wrapped) {
        Map<String, T> names = new LinkedHashMap<>();
        wrapped.forEach((name, value) ->
                names.put(name.startsWith(PARALLEL) ? name.substring(PARALLEL.length()) : name, value));
        return names;
    }

    private static <T> void put(Map<String, T> found, String name, T value, String where) {
        if (found.putIfAbsent(name, value) != null) {
            throw new UnsupportedModelException(
                    "two tensors are called '" + name + "' without what programs put around names",
                    where,
                    "save one model's state_dict() alone");
        }
    }

    private static int containers(List<String> path) {
        int count = 0;
        while (count < path.size() - 1 && CONTAINERS.contains(path.get(count))) {
            count++;
        }
        return count;
    }

    private static boolean isContained(List<String> path) {
        return containers(path) > 0 && category(path, false).isEmpty();
    }

    /** The key under which a thing lies that is no weight; empty for weights. */
    private static String category(List<String> path, boolean contained) {
        for (String part : path.subList(0, path.size() - 1)) {
            if (STATES.contains(part.toLowerCase(Locale.ROOT))) {
                return part;
            }
        }
        return contained && containers(path) == 0 ? path.getFirst() : "";
    }
}
