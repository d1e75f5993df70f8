package dev.octet.trainer.shard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PartitionTest {
    private static Map<String, Long> bytes(long... all) {
        Map<String, Long> named = new LinkedHashMap<>();
        for (int i = 0; i < all.length; i++) {
            named.put("w" + i, all[i]);
        }
        return named;
    }

    @Test
    void the_largest_goes_first_and_to_the_rank_that_has_least() {
        Partition partition = Partition.of(2, bytes(3, 10, 6, 5));
        assertEquals(Map.of("w1", 0, "w2", 1, "w3", 1, "w0", 0), partition.owners());
        assertEquals(
                List.of("w0", "w1", "w2", "w3"), List.copyOf(partition.owners().keySet()));
        assertEquals(1, partition.owner("w3"));
    }

    @Test
    void equal_ones_go_round_in_their_order() {
        assertEquals(
                List.of(0, 1, 2, 0, 1),
                List.copyOf(Partition.of(3, bytes(7, 7, 7, 7, 7)).owners().values()));
    }

    @Test
    void more_ranks_than_parameters_leave_some_with_nothing() {
        assertEquals(
                List.of(1, 0), List.copyOf(Partition.of(5, bytes(1, 2)).owners().values()));
    }

    @Test
    void no_rank_has_more_than_the_average_and_the_largest_whatever_the_sizes() {
        SplittableRandom random = new SplittableRandom(11);
        for (int round = 0; round < 200; round++) {
            int ranks = 1 + random.nextInt(9);
            long[] sizes = random.longs(1 + random.nextInt(40), 0, 1L << random.nextInt(1, 40))
                    .toArray();
            Map<String, Long> bytes = bytes(sizes);
            Partition partition = Partition.of(ranks, bytes);
            assertEquals(bytes.keySet(), partition.owners().keySet());
            long[] load = new long[ranks];
            bytes.forEach((name, n) -> load[partition.owner(name)] += n);
            long sum = 0;
            long largest = 0;
            for (long n : sizes) {
                sum += n;
                largest = Math.max(largest, n);
            }
            for (long n : load) {
                assertTrue(n <= sum / ranks + largest, ranks + " ranks, round " + round);
            }
        }
    }

    @Test
    void what_is_not_trained_has_no_owner() {
        Partition partition = Partition.of(2, bytes(1));
        assertThrows(IllegalArgumentException.class, () -> partition.owner("other"));
    }
}
