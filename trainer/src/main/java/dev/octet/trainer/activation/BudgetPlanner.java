package dev.octet.trainer.activation;

import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongPredicate;

/**
 * Chooses which groups of layers backward computes again so that a micro-batch fits in a budget, at the least cost: measures every segment of the {@link Chain} in the
 * program that repeats it alone, solves the chain, and has the answer confirmed by the real {@link MemoryPlan}. An arena has gaps that the chain knows nothing of: while
 * the real arena is too large, the chain is solved for so much less.
 */
@SuppressWarnings("ReferenceEquality") // whether a pass has made another program
final class BudgetPlanner {
    /** Chains of more units are solved with neighbours joined. */
    private static final int MAX_UNITS = 32;

    private static final int TRIES = 12;

    private final Tape tape;
    private final WeightCasts casts;
    private final int[] units;
    private final int count;
    private final Chain chain;
    private final Map<Integer, Long> lastBoundary = new HashMap<>();
    private final Set<Integer> neededBehind = new HashSet<>();

    /**
     * @param units of each forward step, from 0 on without gaps; -1 before the first and after the last
     * @param casts of weights of layers that are computed again; those that a layer at a time has no room for are made for the step
     */
    BudgetPlanner(Tape tape, int[] units, WeightCasts casts) {
        this.tape = tape;
        this.casts = casts;
        int all = Arrays.stream(units).max().orElse(-1) + 1;
        int join = Math.max(1, Math.ceilDiv(all, MAX_UNITS));
        this.units = Arrays.stream(units).map(u -> u < 0 ? -1 : u / join).toArray();
        this.count = Math.ceilDiv(all, join);
        this.chain = measure();
    }

    /**
     * Units of a program: its layers, where each one's steps lie together; otherwise stretches between values that alone go from one to the next.
     *
     * @return for each forward step; all -1 where the program is no chain
     */
    static int[] units(Tape tape, Layers layers) {
        int steps = tape.forward().size();
        int[] byName = layers.groups(1);
        int before = -1;
        boolean isChain = layers.count() > 1;
        for (int unit : byName) {
            isChain &= unit < 0 || unit == before || unit == before + 1;
            before = Math.max(before, unit);
        }
        return isChain ? filled(byName) : cuts(tape, steps);
    }

    /** Steps between two of a unit belong to it, too. */
    private static int[] filled(int[] units) {
        int[] all = units.clone();
        int last = -1;
        for (int i = 0; i < all.length; i++) {
            last = all[i] >= 0 ? i : last;
        }
        int current = -1;
        for (int i = 0; i < last; i++) {
            current = all[i] >= 0 ? all[i] : current;
            all[i] = current;
        }
        return all;
    }

    private static int[] cuts(Tape tape, int steps) {
        int[] lastReader = new int[tape.program().values().size()];
        int[] maker = new int[lastReader.length];
        Arrays.fill(maker, Integer.MAX_VALUE);
        boolean[] learned = new boolean[lastReader.length];
        for (int i = 0; i < steps; i++) {
            Step s = tape.forward().get(i);
            boolean depends = false;
            for (Value v : s.inputs()) {
                if (v != null) {
                    lastReader[tape.root(v).id()] = i;
                    depends |= v.role() == ValueRole.PARAMETER || v.role() == ValueRole.PREPARED || learned[v.id()];
                }
            }
            for (Value v : s.outputs()) {
                if (v != null) {
                    learned[v.id()] = depends;
                    learned[tape.root(v).id()] |= depends;
                    maker[tape.root(v).id()] = Math.min(maker[tape.root(v).id()], i);
                }
            }
        }
        int[] crossing = new int[steps + 1];
        for (Value v : tape.program().values()) {
            boolean passes = v.role() == ValueRole.TEMPORARY
                    && learned[v.id()]
                    && tape.root(v).equals(v);
            if (passes && maker[v.id()] < lastReader[v.id()]) {
                crossing[maker[v.id()]]++;
                crossing[lastReader[v.id()]]--;
            }
        }
        List<Integer> ends = new ArrayList<>();
        int open = 0;
        for (int i = 0; i < steps; i++) {
            open += crossing[i];
            if (open == 1) {
                ends.add(i);
            }
        }
        // about as many stretches as the chain may have, each of several steps
        int each = Math.max(1, Math.ceilDiv(steps, MAX_UNITS));
        int[] units = new int[steps];
        Arrays.fill(units, -1);
        int from = -1;
        int unit = 0;
        for (int end : ends) {
            if (from < 0) {
                from = end;
            } else if (end - from >= each) {
                Arrays.fill(units, from + 1, end + 1, unit++);
                from = end;
            }
        }
        return units;
    }

    /** Number of units. */
    int count() {
        return count;
    }

    /** Blocks in which each segment of a division that is repeated is one. */
    int[] blocks(List<Chain.Segment> division) {
        int[] segmentOf = new int[count];
        Arrays.fill(segmentOf, -1);
        for (Chain.Segment s : division) {
            if (s.repeated()) {
                Arrays.fill(segmentOf, s.from(), s.to() + 1, s.from());
            }
        }
        return Arrays.stream(units).map(u -> u < 0 ? -1 : segmentOf[u]).toArray();
    }

    /** The program that repeats these blocks. */
    Program repeating(int[] blocks) {
        return new Repetition(tape, blocks, homes(blocks)).build();
    }

    /** The program that repeats these blocks with the casts of their weights. */
    private Program repeatingCasts(int[] blocks) {
        return TransientCasts.withoutStates(tape, blocks, homes(blocks)).moved().repeated();
    }

    private int[] homes(int[] blocks) {
        int[] homes = new int[blocks.length];
        for (int i = 0; i < homes.length; i++) {
            homes[i] = blocks[i] >= 0 ? blocks[i] : units[i] >= 0 ? count + units[i] : -1;
        }
        return homes;
    }

    /** The cheapest division of the chain within a limit of bytes in use. */
    Optional<List<Chain.Segment>> division(long limit) {
        return chain.cheapest(
                limit,
                boundary -> lastBoundary.entrySet().stream()
                        .filter(e -> neededBehind.contains(e.getKey()) && !boundary.contains(e.getKey()))
                        .mapToLong(Map.Entry::getValue)
                        .sum());
    }

    /**
     * What backward computes again.
     *
     * @param blocks of each forward step; -1 for those that are not repeated
     * @param casts whether the casts of weights are repeated with them
     */
    record Choice(List<Integer> blocks, boolean casts) {
        Choice {
            blocks = List.copyOf(blocks);
        }

        private static Choice of(int[] blocks, boolean casts) {
            return new Choice(Arrays.stream(blocks).boxed().toList(), casts);
        }
    }

    /** The program that repeats what was chosen, here or by a rank that has other parts of the same layers. */
    Program repeating(Choice choice) {
        int[] blocks = choice.blocks.stream().mapToInt(Integer::intValue).toArray();
        return choice.casts ? repeatingCasts(blocks) : repeating(blocks);
    }

    /**
     * What to repeat so that the arena is within a budget.
     *
     * @return empty when nothing was found
     */
    Optional<Choice> within(long budget) {
        long limit = budget;
        for (int i = 0; i < TRIES; i++) {
            Optional<List<Chain.Segment>> division = division(limit);
            if (division.isEmpty()) {
                return Optional.empty();
            }
            int[] blocks = blocks(division.get());
            if (casts == WeightCasts.OF_A_LAYER) {
                Program all = repeatingCasts(blocks);
                if (MemoryPlan.of(all).arenaBytes() <= budget) {
                    return Optional.of(Choice.of(blocks, true));
                }
            }
            Program candidate = repeating(blocks);
            long arena = MemoryPlan.of(candidate).arenaBytes();
            if (arena <= budget) {
                return Optional.of(Choice.of(blocks, false));
            }
            limit = Math.min(limit, LiveBytes.peak(candidate)) - Math.max(MemoryPlan.ALIGNMENT, (arena - budget) / 2);
        }
        return Optional.empty();
    }

    /** The choice with the smallest arena that is known: of the division with the fewest bytes in use, and of all units by themselves. */
    Choice least() {
        long low = 0;
        long high = LiveBytes.peak(tape.program());
        LongPredicate fits = limit -> division(limit).isPresent();
        while (!fits.test(high)) {
            high = 2 * high + 1;
        }
        while (high - low > MemoryPlan.ALIGNMENT) {
            long middle = (low + high) >>> 1;
            if (fits.test(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        int[] fewest = blocks(division(high).orElseThrow());
        boolean fewer = MemoryPlan.of(repeating(fewest)).arenaBytes()
                <= MemoryPlan.of(repeating(units)).arenaBytes();
        return Choice.of(fewer ? fewest : units, false);
    }

    private Chain measure() {
        // values that more than the next unit reads, or that come from before the chain, are taken to be there
        // throughout
        List<Step> forward = tape.forward();
        Map<Value, Integer> unitOf = new LinkedHashMap<>();
        Map<Value, Integer> farthest = new HashMap<>();
        int lastUnit = -1;
        boolean behind = false;
        int[] place = new int[forward.size()];
        for (int i = 0; i < place.length; i++) {
            lastUnit = Math.max(lastUnit, units[i]);
            behind = lastUnit == count - 1 && units[i] < 0;
            place[i] = behind ? count : units[i] < 0 ? -1 : units[i];
        }
        for (int i = 0; i < place.length; i++) {
            Step s = forward.get(i);
            for (Value v : s.inputs()) {
                if (v != null && v.role() == ValueRole.TEMPORARY) {
                    farthest.merge(tape.root(v), place[i], Math::max);
                }
            }
            for (Value v : s.outputs()) {
                if (v != null && v.role() == ValueRole.TEMPORARY) {
                    unitOf.putIfAbsent(tape.root(v), place[i]);
                }
            }
        }
        Program plain = tape.program();
        LiveBytes plainly = new LiveBytes(plain);
        int prepared = plain.steps(Phase.PREPARE).size();
        Set<Value> base = new HashSet<>();
        long baseBytes = 0;
        for (Value v : plain.inputs().values()) {
            if (base.add(tape.root(v))) {
                baseBytes += MemoryPlan.bytes(v);
            }
        }
        List<Map<Integer, Long>> between = new ArrayList<>();
        for (int u = 0; u < count; u++) {
            between.add(new HashMap<>());
        }
        for (Map.Entry<Value, Integer> e : unitOf.entrySet()) {
            Value v = e.getKey();
            int unit = e.getValue();
            int far = farthest.getOrDefault(v, unit);
            boolean global = (unit < 0 && far >= 0) || far > unit + 1 || (unit < count && tape.isOutput(v));
            if (v.role() != ValueRole.TEMPORARY) {
                base.add(v);
            } else if (global && base.add(v)) {
                baseBytes += MemoryPlan.bytes(v);
            } else if (unit >= 0 && unit < count && far > unit) {
                between.get(unit).put(v.id(), MemoryPlan.bytes(v));
            }
        }
        Windows windows = new Windows(place, base, unitOf);
        List<Chain.Segment> segments = new ArrayList<>();
        for (int from = 0; from < count; from++) {
            segments.add(windows.segment(plain, from, from, between));
            for (int to = from; to < count; to++) {
                int first = from;
                int last = to;
                int[] blocks = Arrays.stream(units)
                        .map(u -> u >= first && u <= last ? 0 : -1)
                        .toArray();
                Program repeating = repeating(blocks);
                if (repeating != plain) {
                    segments.add(windows.segment(repeating, from, to, between));
                }
            }
        }
        if (count > 0) {
            lastBoundary.putAll(between.get(count - 1));
            for (int k = 0; k < tape.backward().size(); k++) {
                if (tape.twin(k) >= 0 && place[tape.twin(k)] == count) {
                    Tape.reads(tape.backward().get(k))
                            .forEach(v -> neededBehind.add(tape.root(v).id()));
                }
            }
        }
        // outside the chain: forward behind it, backward down to it; and the two ends
        long[] behindChain = plainly.profile(v -> !base.contains(v) && unitOf.getOrDefault(v, count) >= count);
        long[] ends = plainly.profile(v -> !base.contains(v));
        int[] unitOfStep = windows.places(plain);
        long end = 0;
        long floor = 0;
        for (int k = prepared; k < unitOfStep.length; k++) {
            if (unitOfStep[k] == count) {
                end = Math.max(end, behindChain[k]);
            } else if (unitOfStep[k] < 0) {
                floor = Math.max(floor, ends[k]);
            }
        }

        return new Chain(count, Math.max(baseBytes, 0), Math.max(end, count == 0 ? floor : 0), between, segments);
    }

    /** Measures segments in programs that repeat them. */
    private final class Windows {
        private final int[] place;
        private final Set<Value> base;
        private final Map<Value, Integer> unitOf;
        private final IdentityHashMap<Step, Integer> places = new IdentityHashMap<>();

        Windows(int[] place, Set<Value> base, Map<Value, Integer> unitOf) {
            this.place = place;
            this.base = base;
            this.unitOf = unitOf;
            for (int i = 0; i < place.length; i++) {
                places.put(tape.forward().get(i), place[i]);
            }
        }

        /** The unit of each step of a program; repeated steps have that of the backward step behind them. */
        int[] places(Program program) {
            List<Step> steps = program.steps();
            int[] all = new int[steps.size()];
            Arrays.fill(all, -1);
            int k = 0;
            int now = count;
            for (int i = 0; i < all.length; i++) {
                Step s = steps.get(i);
                if (s.phase() == Phase.FORWARD) {
                    all[i] = places.getOrDefault(s, -1);
                } else if (s.phase() == Phase.BACKWARD && !s.repeats()) {
                    now = tape.twin(k) < 0 ? now : place[tape.twin(k)];
                    k++;
                    all[i] = now;
                }
            }
            int behind = -1;
            for (int i = all.length - 1; i >= 0; i--) {
                if (steps.get(i).repeats()) {
                    all[i] = behind;
                } else {
                    behind = all[i];
                }
            }
            return all;
        }

        Chain.Segment segment(Program program, int from, int to, List<Map<Integer, Long>> between) {
            List<Step> steps = program.steps();
            LiveBytes live = new LiveBytes(program);
            int[] places = places(program);
            int values = tape.program().values().size();
            long[] own =
                    live.profile(v -> !base.contains(v) && (v.id() >= values || unitOf.getOrDefault(v, count) >= from));
            long forward = 0;
            long backward = 0;
            long cost = 0;
            int border = 0;
            Set<Integer> needs = new HashSet<>();
            for (int i = 0; i < places.length; i++) {
                Step s = steps.get(i);
                border = s.phase() == Phase.FORWARD ? i : border;
                cost += s.repeats() ? StepCost.of(s).weight() : 0;
                if (places[i] >= from && places[i] <= to) {
                    if (s.phase() == Phase.FORWARD) {
                        forward = Math.max(forward, own[i]);
                    } else {
                        backward = Math.max(backward, own[i]);
                        s.operands().forEach(v -> {
                            if (v.id() < values) {
                                needs.add(tape.root(v).id());
                            }
                        });
                    }
                }
            }
            long left = 0;
            Set<Integer> boundary = new HashSet<>();
            for (Map.Entry<Value, Integer> e : unitOf.entrySet()) {
                Value v = e.getKey();
                if (e.getValue() >= from && e.getValue() <= to && !base.contains(v) && live.last(v) > border) {
                    left += MemoryPlan.bytes(v);
                    if (e.getValue() == to && between.get(to).containsKey(v.id())) {
                        boundary.add(v.id());
                    }
                }
            }
            if (from > 0) {
                needs.retainAll(between.get(from - 1).keySet());
            } else {
                needs.clear();
            }
            return new Chain.Segment(
                    from, to, program != tape.program(), cost, left, boundary, needs, forward, backward);
        }
    }
}
