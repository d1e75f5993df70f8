package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.device.cuda.AlgorithmRace.Winner;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** How a product's algorithm is chosen, on made-up times. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AlgorithmRaceTest {
    /** A GPU whose clock rises while it works: each run is faster than the one before, by less and less. */
    private static final class Course implements AlgorithmRace.Course {
        private final double[] times;
        private final List<String> order = new ArrayList<>();
        private double slowness = 3;

        Course(double... times) {
            this.times = times;
        }

        @Override
        public void warm(int candidate) {
            if (times[candidate] < 0) {
                throw new UnavailableException("refused", "here", "none");
            }
            order.add("warm " + candidate);
        }

        @Override
        public double microseconds(int candidate) {
            if (times[candidate] < 0) {
                throw new UnavailableException("refused", "here", "none");
            }
            order.add("" + candidate);
            slowness = 1 + (slowness - 1) * 0.7;
            return times[candidate] * slowness;
        }
    }

    @Test
    void candidates_take_turns_behind_one_warm_up() {
        Course course = new Course(5, 7, 6);
        assertEquals(0, AlgorithmRace.run(3, course).candidate());
        assertEquals(List.of("warm 0", "0", "1", "2", "0", "1", "2", "0", "1", "2", "0", "1", "2"), course.order);
    }

    @Test
    void a_rising_clock_does_not_favour_the_later_candidates() {
        // timed one after the other the last would win, as the clock is three times as high by then
        assertEquals(0, AlgorithmRace.run(4, new Course(10, 11, 11, 11)).candidate());
    }

    @Test
    void the_first_proposal_is_left_for_more_than_two_in_a_hundred_only() {
        class Steady implements AlgorithmRace.Course {
            private final double[] times;

            Steady(double... times) {
                this.times = times;
            }

            @Override
            public void warm(int candidate) {}

            @Override
            public double microseconds(int candidate) {
                return times[candidate];
            }
        }
        assertEquals(new Winner(0, 100), AlgorithmRace.run(2, new Steady(100, 98.5)));
        assertEquals(new Winner(1, 97), AlgorithmRace.run(2, new Steady(100, 97)));
        assertEquals(new Winner(2, 90), AlgorithmRace.run(3, new Steady(100, 97, 90)));
    }

    @Test
    void a_proposal_that_the_library_rejects_is_out() {
        Course course = new Course(-1, 8, -1, 4);
        assertEquals(3, AlgorithmRace.run(4, course).candidate());
        assertEquals("warm 1", course.order.getFirst());
        assertEquals(new Winner(0, Double.POSITIVE_INFINITY), AlgorithmRace.run(2, new Course(-1, -1)));
    }

    @Test
    void noise_is_finite_spread_over_the_range_and_differs_from_row_to_row() {
        for (DType type : List.of(DType.F8_E4M3FN, DType.F8_E5M2)) {
            Float8Format format = type == DType.F8_E5M2 ? Float8Format.E5M2 : Float8Format.E4M3FN;
            MemorySegment pattern = NoisePattern.of(type);
            double squares = 0;
            for (long i = 0; i < pattern.byteSize(); i++) {
                float x = format.decode(pattern.get(ValueLayout.JAVA_BYTE, i) & 0xFF);
                assertTrue(Float.isFinite(x), type + " " + i);
                squares += x * x;
            }
            double deviation = Math.sqrt(squares / pattern.byteSize());
            assertEquals(format.maxValue() / 4.6, deviation, format.maxValue() / 100);
        }
        assertTrue(NoisePattern.of(DType.F32).byteSize() % 4096 != 0, "rows of usual lengths would be equal");
        float first = NoisePattern.of(DType.F32).get(ValueLayout.JAVA_FLOAT_UNALIGNED, 0);
        assertTrue(Math.abs(first) < 6 && first != 0, "" + first);
    }
}
