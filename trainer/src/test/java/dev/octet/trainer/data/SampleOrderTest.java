package dev.octet.trainer.data;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SampleOrderTest {
    @Test
    void every_number_comes_once_for_every_count_up_to_300() {
        for (int count = 1; count <= 300; count++) {
            SampleOrder p = new SampleOrder(count, 7);
            BitSet seen = new BitSet();
            for (int i = 0; i < count; i++) {
                seen.set(Math.toIntExact(p.at(i)));
            }
            assertEquals(count, seen.nextClearBit(0), "of " + count);
        }
    }

    @Test
    void large_counts_stay_in_range() {
        long count = (1L << 40) + 12345;
        SampleOrder p = new SampleOrder(count, 3);
        for (long i = 0; i < 1000; i++) {
            long x = p.at(count - 1 - i);
            assertTrue(x >= 0 && x < count, "position " + i);
        }
    }

    @Test
    void places_are_spread_evenly() {
        // chi-squared over 20 x 20 cells of (position, number), 100 keys of 100 positions: 361 degrees of freedom, mean
        // 361,
        // deviation 27; six deviations
        int[][] cells = new int[20][20];
        for (int key = 0; key < 100; key++) {
            SampleOrder p = new SampleOrder(100, key);
            for (int i = 0; i < 100; i++) {
                cells[i / 5][Math.toIntExact(p.at(i)) / 5]++;
            }
        }
        double chi = 0;
        for (int[] row : cells) {
            for (int n : row) {
                chi += (n - 25.0) * (n - 25.0) / 25;
            }
        }
        assertTrue(chi < 361 + 6 * 27, "chi-squared " + chi);
    }
}
