package dev.octet.pipeline;

import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.RunFacts;
import java.io.IOException;
import java.nio.file.Path;

/** Writes what Linears lose as one self-contained page: bars, the curve of size and loss, what to leave out. */
final class SensitivityReport {
    private SensitivityReport() {}

    /** What the page is drawn from. */
    record Data(Sensitivity.Result result, RunFacts run) {}

    /**
     * Writes the page atomically.
     *
     * @throws IOException when it cannot be written
     */
    static void write(Sensitivity.Result result, RunFacts run, Path path) throws IOException {
        HtmlPage.write("sensitivity", result.model(), new Data(result, run), path);
    }
}
