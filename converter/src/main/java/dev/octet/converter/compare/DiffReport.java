package dev.octet.converter.compare;

import dev.octet.converter.report.HtmlPage;
import java.io.IOException;
import java.nio.file.Path;

/** Writes a comparison as one self-contained page. */
public final class DiffReport {
    private DiffReport() {}

    /**
     * Writes the page to {@code path} atomically: a failure leaves an earlier file unchanged.
     *
     * @throws IOException when the page cannot be written
     */
    public static void write(ModelDiff diff, Path path) throws IOException {
        HtmlPage.write("diff", diff.a() + " and " + diff.b(), diff, path);
    }
}
