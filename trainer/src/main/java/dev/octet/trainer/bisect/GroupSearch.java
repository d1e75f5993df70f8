package dev.octet.trainer.bisect;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Adaptive group testing: which of many suspects show a fault, in few trials.
 *
 * <p>A round has these parts:
 * <ol>
 *   <li>Groups are tried until one is sick; when all but the last are healthy, the last is taken to be.
 *   <li>The sick group is halved: when the first half is healthy, the second is taken to be sick. This takes log2(n) trials.
 *   <li>The suspect that is left is tried alone. When it is sick, it is a culprit.
 *   <li>When it is not, something taken for granted was wrong: suspects show the fault only together. QuickXplain then finds a smallest set
 *       of them, with this suspect where all others are healthy without it.
 *   <li>One member of the culprit stays cured, and all others are tried: when they are healthy, the search ends, else the next round
 *       begins.
 * </ol>
 * A set is sick in a round above the geometric mean of 1 and the excess of all that are not cured: where one culprit stands out, many small
 * distances do not mislead the search; those that are left are looked at in later rounds.
 *
 * <p>One culprit among the suspects in g groups takes at most {@code g - 1 + ceil(log2(largest group)) + 2} trials. At the end, members of
 * sets that another cure made unnecessary are given back.
 *
 * <p>Sources: binary splitting, Hwang, "A method for detecting all defective members in a population by group testing", JASA 67 (1972);
 * smallest sets that show a fault together, Junker, "QuickXplain: Preferred explanations and relaxations for over-constrained problems",
 * AAAI 2004.
 *
 * @param <T> a suspect, with {@code equals} and {@code hashCode}
 */
public final class GroupSearch<T> {
    /** A culprit of more members is no finding: the fault is spread over all of them. */
    private static final int MAX_MEMBERS = 6;

    /** What is left may have this excess, if that of all was far more. */
    private static final double HEALTHY = 1.2;

    /** A set of this excess is sick, whatever that of all suspects. */
    private static final double MOST = 4;

    /** Below this limit sets of several members are not looked for. */
    private static final double CLEAR = 1.1;

    private final Trial<T> trial;
    private final Map<Set<T>, Double> known = new HashMap<>();

    /** Above this a set is sick in the present round. */
    private double limit = 1;

    private final List<Set<T>> culprits = new ArrayList<>();
    private final Set<T> cured = new LinkedHashSet<>();
    private Set<T> suspects = Set.of();
    private boolean spread;

    private final int most;

    private GroupSearch(int most, Trial<T> trial) {
        this.most = most;
        this.trial = trial;
    }

    /**
     * The excess up to which a cure counts as one: 1.2, or the geometric mean of 1 and the excess without it where that is less. Noise
     * moves an excess of 1 a little to both sides.
     */
    public static double healthy(double excess) {
        return Math.min(HEALTHY, Math.sqrt(excess));
    }

    /**
     * Searches.
     *
     * @param excess of all suspects together, above 1
     * @param groups disjoint, tried in this order; members of a group in the order in which they are halved
     * @param most when there are more culprits than this, the fault is spread
     * @throws IOException when data of a trial cannot be read
     */
    public static <T> Findings<T> search(List<List<T>> groups, double excess, int most, Trial<T> trial)
            throws IOException {
        return new GroupSearch<>(most, trial).run(groups, excess);
    }

    private Findings<T> run(List<List<T>> groups, double excess) throws IOException {
        Set<T> all = new LinkedHashSet<>();
        groups.forEach(all::addAll);
        known.put(all, excess);
        known.put(Set.of(), 0.0);
        boolean complete = true;
        try {
            double healthy = healthy(excess);
            while (!spread && excess(without(all, cured)) > healthy) {
                suspects = without(all, cured);
                limit = Math.min(MOST, Math.sqrt(excess(suspects)));
                if (culprits.size() == most) {
                    spread = true;
                } else {
                    round(groups, suspects);
                }
            }
            if (!spread) {
                giveBack(all, healthy);
                suspects = Set.of();
            }
        } catch (BudgetSpentException e) {
            complete = false;
        }
        return new Findings<>(culprits, cured, suspects, spread, complete && !spread);
    }

    private boolean isSick(Set<T> set) throws BudgetSpentException, IOException {
        return excess(set) > limit;
    }

    private double excess(Set<T> set) throws BudgetSpentException, IOException {
        Double answer = known.get(set);
        if (answer == null) {
            answer = trial.excess(set);
            known.put(set, answer);
        }
        return answer;
    }

    private void round(List<List<T>> groups, Set<T> rest) throws BudgetSpentException, IOException {
        List<T> group = sickGroup(groups, rest);
        suspects = new LinkedHashSet<>(group);
        while (group.size() > 1) {
            List<T> first = group.subList(0, group.size() / 2);
            List<T> second = group.subList(group.size() / 2, group.size());
            group = isSick(new LinkedHashSet<>(first)) ? first : second;
            suspects = new LinkedHashSet<>(group);
        }
        T found = group.getFirst();
        if (isSick(Set.of(found))) {
            accept(List.of(found));
            return;
        }
        Set<T> others = without(rest, Set.of(found));
        suspects = rest;
        if (limit < CLEAR) {
            spread = true; // noise decides what is sick: sets that are so only together cannot be told apart
        } else if (isSick(others)) {
            accept(explain(List.of(), false, new ArrayList<>(others), MAX_MEMBERS));
        } else {
            // found is a member of every culprit: its company is all that is looked for
            List<T> company = explain(List.of(found), false, new ArrayList<>(others), MAX_MEMBERS - 1);
            accept(joined(List.of(found), company));
        }
    }

    private void accept(List<T> members) {
        if (members.size() > MAX_MEMBERS) {
            spread = true;
        } else {
            culprits.add(new LinkedHashSet<>(members));
            cured.add(members.getFirst());
            suspects = Set.of();
        }
    }

    private List<T> sickGroup(List<List<T>> groups, Set<T> rest) throws BudgetSpentException, IOException {
        List<List<T>> left = groups.stream()
                .map(g -> g.stream().filter(rest::contains).toList())
                .filter(g -> !g.isEmpty())
                .toList();
        for (List<T> group : left.subList(0, left.size() - 1)) {
            if (isSick(new LinkedHashSet<>(group))) {
                return group;
            }
        }
        return left.getLast();
    }

    /**
     * QuickXplain: a smallest set of {@code candidates} that is sick together with {@code background}.
     *
     * @param grown whether the background has grown since it was last known to be healthy
     * @param most where more members are found, the answer has more than this many, and not all
     */
    private List<T> explain(List<T> background, boolean grown, List<T> candidates, int most)
            throws BudgetSpentException, IOException {
        if (grown && isSick(new LinkedHashSet<>(background))) {
            return List.of();
        }
        if (candidates.size() == 1) {
            return candidates;
        }
        List<T> first = candidates.subList(0, candidates.size() / 2);
        List<T> second = candidates.subList(candidates.size() / 2, candidates.size());
        List<T> ofSecond = explain(joined(background, first), true, second, most);
        if (ofSecond.size() > most) {
            return ofSecond;
        }
        List<T> ofFirst = explain(joined(background, ofSecond), !ofSecond.isEmpty(), first, most - ofSecond.size());
        return joined(ofFirst, ofSecond);
    }

    /** What an interaction had cured in vain, because a later culprit is part of it, too. */
    private void giveBack(Set<T> all, double healthy) throws BudgetSpentException, IOException {
        boolean alone = culprits.stream().allMatch(c -> c.size() == 1);
        if (alone || cured.size() < 2) {
            return;
        }
        for (T member : List.copyOf(cured)) {
            Set<T> fewer = without(cured, Set.of(member));
            if (excess(without(all, fewer)) <= healthy) {
                cured.remove(member);
            }
        }
    }

    private static <E> List<E> joined(List<E> a, List<E> b) {
        List<E> all = new ArrayList<>(a);
        all.addAll(b);
        return all;
    }

    private static <E> Set<E> without(Set<E> all, Set<E> gone) {
        Set<E> rest = new LinkedHashSet<>(all);
        rest.removeAll(gone);
        return rest;
    }
}
