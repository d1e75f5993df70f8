package dev.octet.trainer.dialect;

import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** The documented keys of a library: a row for each, none twice. */
final class KeyTable {
    private final List<KeyRule> rules;
    private final Map<String, KeyRule> byPath = new HashMap<>();

    /** Rows whose path has a part that stands for any name. */
    private final List<KeyRule> open = new ArrayList<>();

    /** Paths that other keys are below of. */
    private final Set<String> holders = new HashSet<>();

    /** Names below a path with its dot, and paths by their last name: what may have been meant. */
    private final Map<String, Set<String>> below = new HashMap<>();

    private final Map<String, List<String>> byName = new HashMap<>();

    KeyTable(List<KeyRule> rules) {
        this.rules = List.copyOf(rules);
        for (KeyRule rule : rules) {
            if (byPath.put(rule.path(), rule) != null) {
                throw new IllegalArgumentException("two rows of " + rule.path());
            }
            if (rule.path().contains("*")) {
                open.add(rule);
            }
            int last = rule.path().lastIndexOf('.');
            if (last >= 0) {
                byName.computeIfAbsent(rule.path().substring(last + 1), _ -> new ArrayList<>())
                        .add(rule.path());
            }
            below.computeIfAbsent("", _ -> new TreeSet<>()).add(rule.path().split("\\.", -1)[0]);
            for (int dot = rule.path().indexOf('.'); dot >= 0; dot = rule.path().indexOf('.', dot + 1)) {
                holders.add(rule.path().substring(0, dot));
                below.computeIfAbsent(rule.path().substring(0, dot + 1), _ -> new TreeSet<>())
                        .add(rule.path().substring(dot + 1).split("\\.", -1)[0]);
            }
        }
    }

    /** All rows, in the order of the documentation. */
    List<KeyRule> rules() {
        return rules;
    }

    /** The row of a key, the most exact one. */
    Optional<KeyRule> rule(String key) {
        KeyRule exact = byPath.get(key);
        return exact != null
                ? Optional.of(exact)
                : open.stream().filter(r -> r.covers(key)).findFirst();
    }

    /** Whether there are rows of keys below this one. */
    boolean holds(String key) {
        return holders.contains(key) || open.stream().anyMatch(r -> r.isBelow(key));
    }

    /** Whether a key has a row, or keys below it have. */
    boolean isKnown(String key) {
        return rule(key).isPresent() || holds(key);
    }

    /** Keys that may have been meant, for a fix. */
    String advice(String key) {
        int dot = key.lastIndexOf('.');
        String name = key.substring(dot + 1);
        String parent = key.substring(0, dot + 1);
        List<String> others = byName.getOrDefault(name, List.of());
        List<String> near = Nearest.names(name, below.getOrDefault(parent, Set.of()));
        if (!near.isEmpty()) {
            return "did you mean " + String.join(", ", near) + "?";
        }
        return others.isEmpty() ? "remove it" : "did you mean " + String.join(", ", others) + "?";
    }
}
