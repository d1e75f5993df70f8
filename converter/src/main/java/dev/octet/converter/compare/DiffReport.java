package dev.octet.converter.compare;

import dev.octet.converter.report.HtmlPage;
import java.io.IOException;
import java.nio.file.Path;

/** A comparison as one self-contained page. */
public final class DiffReport {
    private DiffReport() {}

    /**
     * Writes the page to {@code path}: the whole page, or what was there before.
     *
     * @throws IOException when it cannot be written
     */
    public static void write(ModelDiff diff, Path path) throws IOException {
        HtmlPage.write("diff", diff.a() + " and " + diff.b(), diff, path);
    }
}
