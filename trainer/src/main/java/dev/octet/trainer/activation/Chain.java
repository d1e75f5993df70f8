package dev.octet.trainer.activation;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

/**
 * A chain of units of forward, each of which is kept, or repeated in backward together with its neighbours; and the cheapest way to do so in a given memory.
 *
 * <p>What is solved exactly, by dynamic programming over the units with all combinations of bytes and cost that no other one beats: choose a division of the chain into
 * segments, each kept (then it is one unit) or repeated as a whole at most once, so that the sum of the segments' costs is least, where at every point of forward and
 * backward the bytes in use do not exceed a limit. In use are the base, what earlier segments leave for backward, what a segment itself needs while it runs, and the
 * values between two segments, which lie there once.
 */
final class Chain {
    /**
     * A possible segment.
     *
     * @param from first unit
     * @param to last unit
     * @param repeated whether it is computed again
     * @param cost of that
     * @param left bytes of its values that backward finds
     * @param boundary of its values that the next unit reads, those among {@code left}; by id
     * @param needs values of the unit before that are read in its backward or when it is repeated
     * @param forward largest number of bytes of its own values while it runs forward
     * @param backward the same in backward, with the gradients
     */
    record Segment(
            int from,
            int to,
            boolean repeated,
            long cost,
            long left,
            Set<Integer> boundary,
            Set<Integer> needs,
            long forward,
            long backward) {}

    private final int units;
    private final long base;
    private final long end;
    private final List<Map<Integer, Long>> between;
    private final List<List<Segment>> byStart = new ArrayList<>();

    /**
     * @param base bytes that are in use throughout
     * @param end largest number of bytes of the values behind the last unit
     * @param between bytes of the values that unit i hands to the next, by id
     * @param segments all that are possible
     */
    Chain(int units, long base, long end, List<Map<Integer, Long>> between, List<Segment> segments) {
        this.units = units;
        this.base = base;
        this.end = end;
        this.between = between;
        for (int i = 0; i < units; i++) {
            byStart.add(new ArrayList<>());
        }
        segments.forEach(s -> byStart.get(s.from()).add(s));
    }

    /** A way up to some unit. */
    private record Way(long bytes, long cost, Set<Integer> boundary, Optional<Way> before, Optional<Segment> last) {}

    /**
     * The cheapest division within a limit.
     *
     * @param finish what the values at the end of a way cost more, given those that lie there; usually nothing
     * @return the segments from the first unit to the last; empty when no division fits
     */
    Optional<List<Segment>> cheapest(long limit, Function<Set<Integer>, Long> finish) {
        List<Map<Set<Integer>, List<Way>>> ways = new ArrayList<>();
        for (int i = 0; i <= units; i++) {
            ways.add(new HashMap<>());
        }
        add(ways.get(0), new Way(0, 0, Set.of(), Optional.empty(), Optional.empty()));
        for (int unit = 0; unit < units; unit++) {
            for (List<Way> alike : ways.get(unit).values()) {
                for (Way way : alike) {
                    for (Segment s : byStart.get(unit)) {
                        next(way, s, limit).ifPresent(w -> add(ways.get(s.to() + 1), w));
                    }
                }
            }
        }
        Way best = null;
        for (List<Way> alike : ways.get(units).values()) {
            for (Way w : alike) {
                boolean fits = base + w.bytes() + finish.apply(w.boundary()) + end <= limit;
                if (fits && (best == null || w.cost() < best.cost())) {
                    best = w;
                }
            }
        }
        if (best == null) {
            return Optional.empty();
        }
        List<Segment> all = new ArrayList<>();
        for (Optional<Way> w = Optional.of(best); w.isPresent(); w = w.get().before()) {
            w.get().last().ifPresent(all::addFirst);
        }
        return Optional.of(all);
    }

    private Optional<Way> next(Way way, Segment s, long limit) {
        long bytes = way.bytes();
        long passing = 0;
        if (s.from() > 0) {
            for (Map.Entry<Integer, Long> value : between.get(s.from() - 1).entrySet()) {
                if (!way.boundary().contains(value.getKey())) {
                    if (s.needs().contains(value.getKey())) {
                        bytes += value.getValue();
                    } else {
                        passing += value.getValue();
                    }
                }
            }
        }
        boolean fits = base + bytes + passing + s.forward() <= limit && base + bytes + s.backward() <= limit;
        return fits
                ? Optional.of(new Way(
                        bytes + s.left(), way.cost() + s.cost(), s.boundary(), Optional.of(way), Optional.of(s)))
                : Optional.empty();
    }

    /** Keeps a way unless another one with the same values at its end takes neither more bytes nor more time. */
    private static void add(Map<Set<Integer>, List<Way>> all, Way way) {
        List<Way> alike = all.computeIfAbsent(new HashSet<>(way.boundary()), _ -> new ArrayList<>());
        if (alike.stream().noneMatch(w -> w.bytes() <= way.bytes() && w.cost() <= way.cost())) {
            alike.removeIf(w -> way.bytes() <= w.bytes() && way.cost() <= w.cost());
            alike.add(way);
        }
    }
}
