package dev.octet.trainer.dialect;

import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;

/**
 * The documented keys of a library.
 *
 * @param rules a row for each, none twice
 */
record KeyTable(List<KeyRule> rules) {
    KeyTable {
        rules = List.copyOf(rules);
        if (rules.stream().map(KeyRule::path).distinct().count() != rules.size()) {
            throw new IllegalArgumentException("a key has two rows");
        }
    }

    /** The row of a key, the most exact one. */
    Optional<KeyRule> rule(String key) {
        Optional<KeyRule> exact = rules.stream().filter(r -> r.path().equals(key)).findFirst();
        return exact.isPresent() ? exact : rules.stream().filter(r -> r.covers(key)).findFirst();
    }

    /** Whether a key has a row, or keys below it have. */
    boolean isKnown(String key) {
        return rule(key).isPresent() || rules.stream().anyMatch(r -> r.path().startsWith(key + "."));
    }

    /** Keys that may have been meant, for a fix. */
    String advice(String key) {
        int dot = key.lastIndexOf('.');
        String parent = dot < 0 ? "" : key.substring(0, dot + 1);
        TreeSet<String> siblings = new TreeSet<>();
        List<String> others = new ArrayList<>();
        for (KeyRule rule : rules) {
            if (rule.path().startsWith(parent)) {
                siblings.add(rule.path().substring(parent.length()).split("\\.")[0]);
            }
            if (rule.path().endsWith("." + key.substring(dot + 1))) {
                others.add(rule.path());
            }
        }
        List<String> near = Nearest.names(key.substring(dot + 1), siblings);
        if (!near.isEmpty()) {
            return "did you mean " + String.join(", ", near) + "?";
        }
        if (!others.isEmpty()) {
            return "did you mean " + String.join(", ", others) + "?";
        }
        return "remove it";
    }
}
