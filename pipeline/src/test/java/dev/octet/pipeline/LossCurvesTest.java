package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.converter.report.ReportData;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossCurvesTest {
    @TempDir
    Path run;

    @Test
    void losses_are_read_by_step_and_those_that_are_not_finite_are_left_out() throws IOException {
        Files.writeString(run.resolve("metrics.jsonl"), """
            {"step": 1, "loss": 0.5, "lr": 0.1}
            {"step": 2, "loss": "NaN"}
            {"step": 2, "eval_loss": 0.25}
            """);
        LossCurves curves = LossCurves.of(run);
        assertEquals(List.of(new ReportData.Point(1, 0.5)), curves.loss());
        assertEquals(List.of(new ReportData.Point(2, 0.25)), curves.evaluated());
    }
}
