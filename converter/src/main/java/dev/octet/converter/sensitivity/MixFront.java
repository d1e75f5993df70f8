package dev.octet.converter.sensitivity;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The mixes of formats that no other mix beats in both size and predicted loss, found by dynamic programming over the groups
 * (the multiple-choice knapsack; Kellerer, Pferschy, Pisinger 2004, section 11.5): after each group, every size that can be reached has its least
 * loss. Deterministic; exact as long as no more than {@link #MAX_STATES} sizes remain, else the best of each of as many equal intervals of
 * size.
 */
public final class MixFront {
    /** Most partial mixes that are carried from group to group. */
    static final int MAX_STATES = 8192;

    private final List<MixGroup> groups;
    private final List<List<State>> steps;
    private final boolean exact;

    /**
     * A partial mix.
     *
     * @param before the state after the group before
     * @param choice of this group
     */
    private record State(long bits, double loss, int before, int choice) {}

    private MixFront(List<MixGroup> groups, List<List<State>> steps, boolean exact) {
        this.groups = groups;
        this.steps = steps;
        this.exact = exact;
    }

    /** Solves for all sizes at once. */
    public static MixFront of(List<MixGroup> groups) {
        return of(groups, MAX_STATES);
    }

    /** The same with at most {@code most} partial mixes, two or more. */
    static MixFront of(List<MixGroup> groups, int most) {
        List<List<State>> steps = new ArrayList<>();
        List<State> front = List.of(new State(0, 0, -1, -1));
        boolean exact = true;
        for (MixGroup group : groups) {
            List<State> next = new ArrayList<>();
            for (int s = 0; s < front.size(); s++) {
                State state = front.get(s);
                for (int c = 0; c < group.choices().size(); c++) {
                    MixGroup.Choice choice = group.choices().get(c);
                    next.add(new State(state.bits() + choice.bits(), state.loss() + choice.loss(), s, c));
                }
            }
            front = undominated(next);
            if (front.size() > most) {
                front = thinned(front, most);
                exact = false;
            }
            steps.add(front);
        }
        return new MixFront(List.copyOf(groups), steps, exact);
    }

    /** Those with less loss than every smaller one, smallest first. */
    private static List<State> undominated(List<State> states) {
        List<State> sorted = states.stream()
                .sorted(Comparator.comparingLong(State::bits)
                        .thenComparingDouble(State::loss)
                        .thenComparingInt(State::before)
                        .thenComparingInt(State::choice))
                .toList();
        List<State> front = new ArrayList<>();
        for (State state : sorted) {
            if (front.isEmpty() || state.loss() < front.getLast().loss()) {
                front.add(state);
            }
        }
        return front;
    }

    /** The least loss, that is the last state, of each interval of size, and the smallest of all. */
    private static List<State> thinned(List<State> front, int most) {
        long from = front.getFirst().bits();
        double width = (double) (front.getLast().bits() - from + 1) / (most - 1);
        List<State> fewer = new ArrayList<>(List.of(front.getFirst()));
        for (int i = 1; i < front.size(); i++) {
            boolean last = i + 1 == front.size()
                    || (long) ((front.get(i).bits() - from) / width)
                            != (long) ((front.get(i + 1).bits() - from) / width);
            if (last) {
                fewer.add(front.get(i));
            }
        }
        return fewer;
    }

    /** Whether no mix was left out of the search. */
    public boolean exact() {
        return exact;
    }

    /** How many mixes there are, smallest first. */
    public int size() {
        return steps.isEmpty() ? 0 : steps.getLast().size();
    }

    /** Bits of all weights in mix {@code index}. */
    public long bits(int index) {
        return steps.getLast().get(index).bits();
    }

    /** Predicted loss of mix {@code index}. */
    public double loss(int index) {
        return steps.getLast().get(index).loss();
    }

    /** Mix {@code index} with its formats. */
    public Mix mix(int index) {
        Map<String, String> byGroup = new LinkedHashMap<>();
        int at = index;
        for (int g = groups.size() - 1; g >= 0; g--) {
            State state = steps.get(g).get(at);
            byGroup.put(
                    groups.get(g).name(),
                    groups.get(g).choices().get(state.choice()).format());
            at = state.before();
        }
        Map<String, String> formats = new LinkedHashMap<>();
        for (MixGroup group : groups) {
            group.layers().forEach(l -> formats.put(l.weight(), byGroup.getOrDefault(group.name(), MixGroup.KEPT)));
        }
        return new Mix(bits(index), loss(index), formats);
    }

    /** The mix with the least predicted loss among those of at most {@code bits}; empty when the smallest is larger. */
    public Optional<Mix> within(double bits) {
        int found = -1;
        for (int i = 0; i < size() && bits(i) <= bits; i++) {
            found = i;
        }
        return found < 0 ? Optional.empty() : Optional.of(mix(found));
    }

    /** The smallest mix whose predicted loss is at most {@code loss}; empty when even keeping everything loses more. */
    public Optional<Mix> reaching(double loss) {
        for (int i = 0; i < size(); i++) {
            if (loss(i) <= loss) {
                return Optional.of(mix(i));
            }
        }
        return Optional.empty();
    }
}
