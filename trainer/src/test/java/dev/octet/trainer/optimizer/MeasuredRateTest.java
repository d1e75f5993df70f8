package dev.octet.trainer.optimizer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Rates that follow evaluations against torch's ReduceLROnPlateau and transformers' GreedyLR. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MeasuredRateTest {
    private static final Path GOLDEN =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "measured_rates.csv");

    /** A row of {@code make/measured_rates.py}. */
    @SuppressWarnings("ArrayRecordComponent") // read once
    private record Row(String name, Schedule schedule, double[] measures, double[] rates) {
        static Row of(String line) {
            String[] cells = line.split("\\|", -1);
            Map<String, String> options = cells[1].isEmpty()
                    ? Map.of()
                    : Arrays.stream(cells[1].split(" "))
                            .map(o -> o.split("="))
                            .collect(Collectors.toMap(o -> o[0], o -> o[1]));
            Schedule schedule = new Schedule(
                    requireNonNull(ScheduleType.byName().get(cells[0])), options, Double.parseDouble(cells[2]), 0, 100);
            return new Row(cells[0] + " " + cells[1], schedule, numbers(cells[3]), numbers(cells[4]));
        }

        private static double[] numbers(String cell) {
            return Arrays.stream(cell.split(" "))
                    .mapToDouble(n -> n.equals("nan") ? Double.NaN : Double.parseDouble(n))
                    .toArray();
        }

        MeasuredRate begin() {
            return MeasuredRate.of(schedule).orElseThrow();
        }
    }

    private static List<Row> rows() throws IOException {
        List<Row> rows = Files.readAllLines(GOLDEN).stream().map(Row::of).toList();
        assertEquals(14, rows.size());
        return rows;
    }

    @Test
    void after_each_evaluation_the_rate_is_that_of_the_library_to_the_bit() throws IOException {
        int changes = 0;
        for (Row row : rows()) {
            MeasuredRate rate = row.begin();
            for (int i = 0; i < row.measures.length; i++) {
                double before = rate.rate();
                rate.evaluated(row.measures[i]);
                assertEquals(row.rates[i], rate.rate(), 0, row.name + ", evaluation " + (i + 1));
                changes += rate.rate() == before ? 0 : 1;
            }
        }
        assertTrue(changes > 100, "rates changed " + changes + " times");
    }

    @Test
    void a_rate_that_is_remembered_and_recalled_at_any_evaluation_goes_on_as_if_nothing_had_been() throws IOException {
        for (Row row : rows()) {
            MeasuredRate rate = row.begin();
            for (int i = 0; i < row.measures.length; i++) {
                MeasuredRate next = row.begin();
                next.evaluated(-99); // something to forget
                next.recall(rate.remembered());
                rate = next;
                rate.evaluated(row.measures[i]);
                assertEquals(row.rates[i], rate.rate(), 0, row.name + ", evaluation " + (i + 1));
            }
        }
    }

    @Test
    void what_is_remembered_badly_is_no_number() {
        MeasuredRate rate =
                MeasuredRate.of(Schedule.of(ScheduleType.GREEDY, 1e-3, 0, 10)).orElseThrow();
        assertThrows(NumberFormatException.class, () -> rate.recall(Map.of("rate", "fast")));
        assertTrue(MeasuredRate.of(Schedule.of(ScheduleType.COSINE, 1, 0, 10)).isEmpty());
    }
}
