package dev.octet.trainer.optimizer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScheduleTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden", "training");

    @Test
    void factors_are_those_of_transformers() throws IOException {
        List<String> rows = Files.readAllLines(GOLDEN.resolve("schedules.csv"));
        assertEquals(135, rows.size());
        for (String row : rows) {
            List<String> cells = List.of(row.split(",", -1));
            Schedule schedule = Schedule.of(
                    ScheduleType.valueOf(cells.get(0).toUpperCase(Locale.ROOT)),
                    1,
                    Long.parseLong(cells.get(1)),
                    Long.parseLong(cells.get(2)));
            double expected = Double.parseDouble(cells.get(4));
            assertEquals(expected, schedule.rate(Long.parseLong(cells.get(3))), 1e-15, row);
        }
    }

    /** A row of {@code make/schedules.py}. */
    private record Rates(String name, Schedule schedule, List<Double> rates, List<Double> momenta) {
        static Rates of(String row) {
            List<String> cells = List.of(row.split("\\|", -1));
            Map<String, String> options = cells.get(1).isEmpty()
                    ? Map.of()
                    : Arrays.stream(cells.get(1).split(" "))
                            .map(o -> o.split("="))
                            .collect(Collectors.toMap(o -> o[0], o -> o[1]));
            Schedule schedule = new Schedule(
                    requireNonNull(ScheduleType.byName().get(cells.get(0))),
                    options,
                    Double.parseDouble(cells.get(2)),
                    Long.parseLong(cells.get(3)),
                    Long.parseLong(cells.get(4)));
            return new Rates(cells.get(0) + " " + cells.get(1), schedule, numbers(cells.get(5)), numbers(cells.get(6)));
        }

        private static List<Double> numbers(String cell) {
            return cell.isEmpty()
                    ? List.of()
                    : Arrays.stream(cell.split(" ", -1)).map(Double::valueOf).toList();
        }
    }

    private static List<Rates> golden() throws IOException {
        return Files.readAllLines(GOLDEN.resolve("rates.csv")).stream()
                .map(Rates::of)
                .toList();
    }

    /** Schedules of torch multiply the rate of the step before, each time with an error in the last place. */
    private static final Set<ScheduleType> CHAINED = EnumSet.range(ScheduleType.STEP_LR, ScheduleType.ONE_CYCLE_LR);

    /** The libraries' cosines and powers may differ in the last place. */
    @TestFactory
    Stream<DynamicTest> every_step_of_a_run_has_the_rate_of_the_library() throws IOException {
        return golden().stream()
                .map(r -> dynamicTest(r.name(), () -> {
                    for (int done = 0; done < r.rates().size(); done++) {
                        assertEquals(
                                r.rates().get(done),
                                r.schedule().rate(done),
                                (CHAINED.contains(r.schedule().type()) ? 1e-13 : 1e-15)
                                        * r.schedule().highest(),
                                "step " + (done + 1));
                    }
                }));
    }

    @Test
    void restarts_that_grow_beyond_every_number_end() {
        Map<String, String> options = Map.of("T_0", "2", "T_mult", String.valueOf(Long.MAX_VALUE));
        Schedule schedule = new Schedule(ScheduleType.COSINE_ANNEALING_WARM_RESTARTS, options, 1, 0, 10);
        assertEquals(1, schedule.rate(2), 1e-12);
        assertEquals(1, schedule.rate(9), 1e-12);
    }

    @TestFactory
    Stream<DynamicTest> momentum_cycles_as_deepspeed_and_torch_have_it() throws IOException {
        return golden().stream()
                .filter(r -> r.schedule().type().option("cycle_momentum").isPresent())
                .map(r -> dynamicTest(r.name(), () -> {
                    for (int done = 0; done < r.rates().size(); done++) {
                        double beta1 = r.schedule().momentum(done).orElse(Double.NaN);
                        double expected = r.momenta().size() == 0
                                ? Double.NaN
                                : r.momenta().get(done);
                        assertEquals(expected, beta1, 1e-15, "step " + (done + 1));
                    }
                }));
    }

    @Test
    void every_schedule_has_a_golden_run() throws IOException {
        Set<ScheduleType> seen = EnumSet.noneOf(ScheduleType.class);
        golden().forEach(r -> seen.add(r.schedule().type()));
        Set<ScheduleType> all = EnumSet.allOf(ScheduleType.class);
        all.removeIf(ScheduleType::isMeasured); // MeasuredRateTest has them
        assertEquals(all, seen);
    }

    @Test
    void deepspeeds_first_two_steps_have_the_least_rate_unless_its_delay_is_left_out() {
        Map<String, String> options = Map.of("warmup_num_steps", "4", "warmup_type", "linear");
        Schedule theirs = new Schedule(ScheduleType.WARMUP_LR, options, 1, 0, 10);
        assertEquals(List.of(0.0, 0.0, 0.25), List.of(theirs.rate(0), theirs.rate(1), theirs.rate(2)));
        Schedule mended = new Schedule(
                ScheduleType.WARMUP_LR,
                Map.of("warmup_num_steps", "4", "warmup_type", "linear", "delayed", "false"),
                1,
                0,
                10);
        assertEquals(List.of(0.0, 0.25, 0.5), List.of(mended.rate(0), mended.rate(1), mended.rate(2)));
    }

    @Test
    void a_run_longer_than_onecyclelr_is_refused_as_torch_fails_behind_its_end() {
        Map<String, String> options = Map.of("max_lr", "0.001", "total_steps", "20");
        InvalidOptionException refused = assertThrows(
                InvalidOptionException.class, () -> new Schedule(ScheduleType.ONE_CYCLE_LR, options, 1, 0, 21));
        assertEquals("the cycle has 20 steps and the run 21, and torch fails behind its end", refused.what());
        assertEquals(0.001 / 25, new Schedule(ScheduleType.ONE_CYCLE_LR, options, 1, 0, 20).rate(0), 1e-18);
    }

    @Test
    void cycles_of_torch_leave_the_second_beta_and_deepspeeds_sets_it() {
        Optimizer.Adam adam = Optimizer.Adam.ADAMW;
        Map<String, String> torch = Map.of("base_lr", "0.1", "max_lr", "1");
        Map<String, String> deepspeed = Map.of("cycle_min_lr", "0.1", "cycle_max_lr", "1");
        assertEquals(new Optimizer.Cycled(adam), new Schedule(ScheduleType.CYCLIC_LR, torch, 1, 0, 9).of(adam));
        assertEquals(
                0.99,
                ((Optimizer.Cycled) new Schedule(ScheduleType.ONE_CYCLE, deepspeed, 1, 0, 9).of(adam))
                        .adam()
                        .beta2());
    }

    @Test
    void only_some_schedules_depend_on_the_length_of_the_run() throws IOException {
        Set<ScheduleType> free = EnumSet.noneOf(ScheduleType.class);
        for (Rates r : golden()) {
            if (!r.schedule().dependsOnSteps()) {
                free.add(r.schedule().type());
                Schedule s = r.schedule();
                Schedule longer = new Schedule(s.type(), s.options(), s.peak(), s.warmup(), s.steps() + 5);
                for (int done = 0; done < r.rates().size(); done++) {
                    assertEquals(s.rate(done), longer.rate(done), r.name());
                }
            }
        }
        assertTrue(free.containsAll(EnumSet.of(ScheduleType.CONSTANT, ScheduleType.WARMUP_LR, ScheduleType.ONE_CYCLE)));
        assertTrue(!free.contains(ScheduleType.LINEAR) && !free.contains(ScheduleType.COSINE));
    }
}
