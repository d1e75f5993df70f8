package dev.octet.pipeline;

import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.RunFacts;
import java.io.IOException;
import java.nio.file.Path;

/** Writes what an evaluation found as one self-contained page. */
final class EvaluateReport {
    private EvaluateReport() {}

    /** What the page is drawn from. */
    record Data(Evaluate.Result result, RunFacts run) {}

    /**
     * Writes the page atomically.
     *
     * @throws IOException when it cannot be written
     */
    static void write(Evaluate.Result result, RunFacts run, Path path) throws IOException {
        HtmlPage.write("evaluate", result.reference() + " and " + result.candidate(), new Data(result, run), path);
    }
}
