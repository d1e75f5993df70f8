package dev.octet.trainer.bisect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GroupSearchTest {
    private static final int PRODUCTS = 3;

    /** A set is sick when it holds all members of a culprit. */
    private static final class Oracle implements Trial<Integer> {
        private final List<Set<Integer>> culprits;
        private final int budget;
        private final Set<Set<Integer>> asked = new HashSet<>();

        Oracle(List<Set<Integer>> culprits, int budget) {
            this.culprits = culprits;
            this.budget = budget;
        }

        Oracle(List<Set<Integer>> culprits) {
            this(culprits, Integer.MAX_VALUE);
        }

        @Override
        public double excess(Set<Integer> suspects) throws BudgetSpentException {
            if (asked.size() == budget) {
                throw new BudgetSpentException(budget + " trials");
            }
            assertTrue(asked.add(Set.copyOf(suspects)), "a set is tried once: " + suspects);
            return culprits.stream().anyMatch(suspects::containsAll) ? 10 : 0.5;
        }
    }

    private static List<List<Integer>> groups(int layers) {
        return IntStream.range(0, PRODUCTS)
                .mapToObj(p ->
                        IntStream.range(p * layers, (p + 1) * layers).boxed().toList())
                .toList();
    }

    private static int log2(int n) {
        return 32 - Integer.numberOfLeadingZeros(n - 1);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 7, 12, 48, 196})
    void one_culprit_is_found_in_the_logarithm_of_the_layers_and_four_trials(int layers) throws IOException {
        for (int culprit = 0; culprit < PRODUCTS * layers; culprit++) {
            Oracle oracle = new Oracle(List.of(Set.of(culprit)));
            Findings<Integer> found = GroupSearch.search(groups(layers), 10, 10, oracle);
            assertEquals(List.of(Set.of(culprit)), found.culprits());
            assertEquals(Set.of(culprit), found.cured());
            assertTrue(found.complete());
            assertTrue(oracle.asked.size() <= log2(layers) + 4, culprit + " of " + layers + ": " + oracle.asked.size());
        }
    }

    @Test
    void several_culprits_are_all_found_and_what_is_left_is_healthy() throws IOException {
        Oracle oracle = new Oracle(List.of(Set.of(3), Set.of(17), Set.of(40)));
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 10, oracle);
        assertEquals(Set.of(Set.of(3), Set.of(17), Set.of(40)), Set.copyOf(found.culprits()));
        assertEquals(Set.of(3, 17, 40), found.cured());
        assertTrue(oracle.asked.size() <= 3 * (log2(16) + 4), "trials: " + oracle.asked.size());
    }

    @Test
    void suspects_that_are_sick_only_together_are_one_culprit_and_one_of_them_is_cured() throws IOException {
        Oracle oracle = new Oracle(List.of(Set.of(5, 38)));
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 10, oracle);
        assertTrue(found.complete());
        assertEquals(List.of(Set.of(5, 38)), found.culprits());
        assertEquals(1, found.cured().size());
        assertTrue(Set.of(5, 38).containsAll(found.cured()));
        assertTrue(oracle.asked.size() <= 2 * 2 * log2(48), "trials: " + oracle.asked.size());
    }

    @Test
    void a_pair_besides_a_single_culprit_is_named_as_a_pair() throws IOException {
        Oracle oracle = new Oracle(List.of(Set.of(0), Set.of(5, 38)));
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 10, oracle);
        assertTrue(found.complete());
        assertEquals(Set.of(Set.of(0), Set.of(5, 38)), Set.copyOf(found.culprits()));
        assertEquals(2, found.cured().size());
        assertTrue(found.cured().contains(0));
    }

    @Test
    void two_disjoint_pairs_are_both_broken() throws IOException {
        Oracle oracle = new Oracle(List.of(Set.of(2, 30), Set.of(9, 21)));
        Findings<Integer> found = GroupSearch.search(groups(12), 10, 10, oracle);
        assertTrue(found.complete());
        assertEquals(Set.of(Set.of(2, 30), Set.of(9, 21)), Set.copyOf(found.culprits()));
        assertEquals(2, found.cured().size());
    }

    @Test
    void a_fault_of_very_many_together_is_spread_and_nobody_is_accused() throws IOException {
        Set<Integer> most = IntStream.range(0, 40).boxed().collect(Collectors.toSet());
        Trial<Integer> trial = s -> s.stream().filter(most::contains).count() >= 25 ? 10 : 0;
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 10, trial);
        assertTrue(found.spread());
        assertFalse(found.complete());
        assertEquals(List.of(), found.culprits());
    }

    @Test
    void small_distances_of_many_do_not_hide_the_one_that_stands_out() throws IOException {
        // 48 suspects of 0.04 each: a half of them is above 1 without the culprit
        Trial<Integer> trial = s -> 0.04 * s.size() + (s.contains(37) ? 20 : 0);
        Findings<Integer> found = GroupSearch.search(groups(16), 22, 4, trial);
        assertEquals(List.of(Set.of(37)), found.culprits().subList(0, 1));
    }

    @Test
    void what_is_hardly_sick_is_not_taken_apart() throws IOException {
        Trial<Integer> trial = s -> s.size() / 40.0;
        Findings<Integer> found = GroupSearch.search(groups(16), 1.2, 4, trial);
        assertTrue(found.spread());
        assertEquals(List.of(), found.culprits());
    }

    @Test
    void more_culprits_than_wanted_are_a_spread_fault_and_those_found_are_kept() throws IOException {
        List<Set<Integer>> all = IntStream.range(16, 32).mapToObj(Set::of).toList();
        Oracle oracle = new Oracle(all);
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 3, oracle);
        assertTrue(found.spread());
        assertEquals(3, found.culprits().size());
        assertTrue(all.containsAll(found.culprits()));
        assertTrue(oracle.asked.size() <= 3 * (log2(16) + 4), "trials: " + oracle.asked.size());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 7, 8})
    void a_spent_budget_ends_with_the_smallest_set_known_to_hold_the_culprit(int budget) throws IOException {
        Oracle oracle = new Oracle(List.of(Set.of(21)), budget);
        Findings<Integer> found = GroupSearch.search(groups(16), 10, 10, oracle);
        boolean enough = budget >= 8; // fprop, dgrad, four halves, the one that is left, all but it
        assertEquals(enough, found.complete());
        if (budget < 7) {
            assertTrue(found.suspects().contains(21));
            assertEquals(
                    List.of(48, 48, 16, 8, 4, 2, 1).get(budget),
                    found.suspects().size());
        } else {
            assertEquals(List.of(Set.of(21)), found.culprits());
            assertEquals(Set.of(), found.suspects(), "whether there are more is not known");
        }
    }

    @Test
    void whatever_the_culprits_are_the_cure_cures_and_no_member_of_it_is_idle() throws IOException {
        SplittableRandom random = new SplittableRandom(7);
        for (int run = 0; run < 500; run++) {
            int layers = 1 + random.nextInt(20);
            List<Set<Integer>> culprits = new ArrayList<>();
            int count = 1 + random.nextInt(4);
            for (int i = 0; i < count; i++) {
                Set<Integer> members = new TreeSet<>();
                int size = 1 + random.nextInt(2);
                for (int k = 0; k < size; k++) {
                    members.add(random.nextInt(PRODUCTS * layers));
                }
                culprits.add(members);
            }
            Findings<Integer> found = GroupSearch.search(groups(layers), 10, 10, new Oracle(culprits));
            assertTrue(found.complete());
            for (Set<Integer> c : culprits) {
                assertTrue(c.stream().anyMatch(found.cured()::contains), culprits + ": " + found);
            }
            for (Integer member : found.cured()) {
                Set<Integer> fewer = new LinkedHashSet<>(found.cured());
                fewer.remove(member);
                assertTrue(
                        culprits.stream().anyMatch(c -> c.stream().noneMatch(fewer::contains)),
                        culprits + ": " + found);
            }
        }
    }
}
