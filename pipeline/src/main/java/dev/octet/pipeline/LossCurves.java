package dev.octet.pipeline;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.report.ReportData;
import dev.octet.trainer.hook.MetricsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The losses of a run by step, as its {@code metrics.jsonl} has them.
 *
 * @param loss of training
 * @param evaluated on evaluation data; empty without
 */
record LossCurves(List<ReportData.Point> loss, List<ReportData.Point> evaluated) {
    /** Reads those of a run's folder; steps whose loss is not finite are left out. */
    static LossCurves of(Path run) throws IOException {
        List<ReportData.Point> loss = new ArrayList<>();
        List<ReportData.Point> evaluated = new ArrayList<>();
        MetricsFile.read(run, values -> {
            add(loss, values, "loss");
            add(evaluated, values, "eval_loss");
        });
        return new LossCurves(loss, evaluated);
    }

    private static void add(List<ReportData.Point> points, JsonNode values, String key) {
        JsonNode value = values.path(key);
        if (value.isNumber()) {
            points.add(new ReportData.Point(values.path("step").asLong(), value.asDouble()));
        }
    }
}
