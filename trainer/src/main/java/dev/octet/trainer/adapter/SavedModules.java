package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * {@code modules_to_save}: modules that are trained whole. As in PEFT a module gets a copy of its parameters, so that an output layer that is tied to the embeddings is
 * trained apart from them.
 */
final class SavedModules {
    private static final String WEIGHT = ".weight";

    private final AdapterSettings settings;
    private final AdapterEdit edit;

    SavedModules(AdapterSettings settings, AdapterEdit edit) {
        this.settings = settings;
        this.edit = edit;
    }

    /** @throws InvalidOptionException when a name matches no module */
    void apply() {
        List<String> names = settings.config().modulesToSave();
        if (names.isEmpty()) {
            return;
        }
        Map<String, List<String>> tied = tiedHeads();
        Set<String> modules = new LinkedHashSet<>(edit.modules().kinds().keySet());
        for (String name : names) {
            List<String> matched = modules.stream().filter(m -> saves(name, m)).toList();
            if (matched.isEmpty()) {
                Set<String> last = modules.stream().map(Targets::lastName).collect(Collectors.toSet());
                throw new InvalidOptionException(
                        "modules_to_save: '" + name + "' matches no module",
                        settings.where("modules_to_save"),
                        Nearest.advice(Targets.lastName(name), last));
            }
            matched.forEach(m -> save(m, tied));
        }
    }

    /** Whether a module or one around it has a path that ends in the name. */
    private static boolean saves(String name, String module) {
        for (int end = module.length(); end > 0; end = module.lastIndexOf('.', end - 1)) {
            if (module.substring(0, end).endsWith(name)) {
                return true;
            }
        }
        return false;
    }

    /** Nodes of output layers that read a table of embeddings, by table. */
    private Map<String, List<String>> tiedHeads() {
        Map<String, List<String>> heads = new LinkedHashMap<>();
        for (LinearModule m : edit.modules().linears()) {
            if (!m.weight().equals(m.name() + WEIGHT)) {
                heads.computeIfAbsent(m.weight(), _ -> new ArrayList<>()).add(m.node());
            }
        }
        return heads;
    }

    private void save(String module, Map<String, List<String>> tied) {
        List<LinearModule> linears = edit.modules().linears().stream()
                .filter(m -> m.name().equals(module))
                .toList();
        if (linears.isEmpty()) {
            for (String suffix : List.of(WEIGHT, ".bias")) {
                String parameter = module + suffix;
                if (edit.isConstant(parameter)) {
                    List<String> readers = new ArrayList<>(edit.readers(parameter));
                    readers.removeAll(tied.getOrDefault(parameter, List.of()));
                    edit.trainCopy(parameter, PeftKeys.key(parameter, PeftRole.SAVED), readers);
                }
            }
            return;
        }
        for (LinearModule linear : linears) {
            String weight = PeftKeys.key(module + WEIGHT, PeftRole.SAVED);
            if (edit.isTransposed(linear)) {
                edit.trainTransposed(linear, weight);
            } else {
                edit.trainCopy(linear.weight(), weight, List.of(linear.node()));
            }
            String bias = edit.baseNode(linear.node()).input(2);
            if (edit.isConstant(bias)) {
                String key = PeftKeys.key(module + ".bias", PeftRole.SAVED);
                edit.trainCopy(bias, key, List.of(linear.node()));
            }
        }
    }
}
