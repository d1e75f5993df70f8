package dev.octet.converter.verify;

import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.RunFacts;
import java.io.IOException;
import java.nio.file.Path;

/** Writes what a verification found as one self-contained page. */
public final class VerifyReport {
    private VerifyReport() {}

    /** What the page is drawn from. */
    record Data(Verification result, RunFacts run) {}

    /**
     * Writes the page to {@code path} atomically: a failure leaves an earlier file unchanged.
     *
     * @param run command, date, versions, times
     * @throws IOException when the page cannot be written
     */
    public static void write(Verification result, RunFacts run, Path path) throws IOException {
        HtmlPage.write("verify", result.model(), new Data(result, run), path);
    }
}
