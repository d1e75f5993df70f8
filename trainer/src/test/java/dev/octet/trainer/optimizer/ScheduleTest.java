package dev.octet.trainer.optimizer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScheduleTest {
    private static final Path TABLE =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "schedules.csv");

    @Test
    void factors_are_those_of_transformers() throws IOException {
        List<String> rows = Files.readAllLines(TABLE);
        assertEquals(135, rows.size());
        for (String row : rows) {
            List<String> cells = List.of(row.split(",", -1));
            Schedule schedule = new Schedule(
                    Schedule.Shape.valueOf(cells.get(0).toUpperCase(Locale.ROOT)),
                    Long.parseLong(cells.get(1)),
                    Long.parseLong(cells.get(2)));
            double expected = Double.parseDouble(cells.get(4));
            assertEquals(expected, schedule.factor(Long.parseLong(cells.get(3))), 1e-15, row);
        }
    }
}
