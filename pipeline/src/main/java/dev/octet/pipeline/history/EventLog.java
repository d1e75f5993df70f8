package dev.octet.pipeline.history;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** The first events of each kind, and how many there were; the same event in consecutive steps counts once. */
final class EventLog {
    private static final int MOST_OF_A_KIND = 300;

    private final Map<RunEvent.Kind, List<RunEvent>> events = new EnumMap<>(RunEvent.Kind.class);
    private final Map<RunEvent.Kind, Long> left = new EnumMap<>(RunEvent.Kind.class);

    void add(RunEvent event) {
        List<RunEvent> kind = events.computeIfAbsent(event.kind(), k -> new ArrayList<>());
        if (!kind.isEmpty() && kind.getLast().goesOnWith(event)) {
            kind.set(kind.size() - 1, kind.getLast().until(event.step()));
        } else if (kind.size() < MOST_OF_A_KIND) {
            kind.add(event);
        } else {
            left.merge(event.kind(), 1L, Long::sum);
        }
    }

    /** By step. */
    List<RunEvent> all() {
        List<RunEvent> all = new ArrayList<>();
        events.values().forEach(all::addAll);
        all.sort((a, b) -> Long.compare(a.step(), b.step()));
        return all;
    }

    /** How many events of a kind there were after those that are kept. */
    Map<RunEvent.Kind, Long> left() {
        return Map.copyOf(left);
    }
}
