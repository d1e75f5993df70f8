package dev.octet.converter.verify;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Collects what rules report. Breaches of one rule that are alike (same words, severity, consumers) become one finding, so that a fault in
 * every weight of a model is one line and not ten thousand. Used from one thread at a time: rules that run together each have their own.
 */
final class Findings {
    private record Kind(Rule rule, Severity severity, Set<Consumer> consumers, String what) {}

    private static final class Places {
        private long count;
        private final List<Finding.Place> first = new ArrayList<>();
    }

    private final Set<Consumer> asked;
    private final Map<Kind, Places> found = new LinkedHashMap<>();

    /** For these consumers; breaches that matter only to others are dropped. */
    Findings(Set<Consumer> asked) {
        this.asked = asked;
    }

    /** For whom it collects. */
    Set<Consumer> asked() {
        return asked;
    }

    /** A breach, as {@link Report#add(Severity, Set, String, String, String)} has it. */
    void add(Rule rule, Severity severity, Set<Consumer> consumers, String what, String where, String detail) {
        Set<Consumer> concerned = EnumSet.noneOf(Consumer.class);
        concerned.addAll(consumers);
        concerned.retainAll(asked);
        if (concerned.isEmpty()) {
            return;
        }
        Places places = found.computeIfAbsent(new Kind(rule, severity, concerned, what), k -> new Places());
        places.count++;
        if (places.first.size() < Finding.MAX_PLACES) {
            places.first.add(new Finding.Place(where, detail));
        }
    }

    /** Appends the findings of {@code others}. */
    void addAll(Findings others) {
        others.found.forEach((kind, places) -> {
            Places mine = found.computeIfAbsent(kind, k -> new Places());
            mine.count += places.count;
            int room = Finding.MAX_PLACES - mine.first.size();
            mine.first.addAll(places.first.subList(0, Math.min(room, places.first.size())));
        });
    }

    /** All findings, worst first, then in the order of {@code rules}. */
    List<Finding> sorted(List<Rule> rules) {
        List<Finding> all = new ArrayList<>();
        for (Severity severity : Severity.values()) {
            for (Rule rule : rules) {
                found.forEach((kind, places) -> {
                    if (kind.severity == severity && kind.rule.equals(rule)) {
                        all.add(finding(kind, places));
                    }
                });
            }
        }
        return all;
    }

    private static Finding finding(Kind kind, Places places) {
        return new Finding(
                kind.rule.id(),
                kind.severity,
                List.copyOf(kind.consumers),
                kind.what,
                places.count,
                places.first,
                kind.rule.fix(),
                kind.rule.source());
    }
}
