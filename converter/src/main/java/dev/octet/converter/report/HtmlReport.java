package dev.octet.converter.report;

import java.io.IOException;
import java.nio.file.Path;

/** Writes {@link ReportData} as one self-contained HTML file. */
public final class HtmlReport {
    private static final String PAGE = "report";

    private HtmlReport() {}

    /**
     * Writes the report to {@code path} atomically: a failure leaves an earlier file unchanged.
     *
     * @throws IOException when the page cannot be written
     */
    public static void write(ReportData data, Path path) throws IOException {
        HtmlPage.write(PAGE, data.summary().model(), data, path);
    }

    /** The page as text. */
    static String html(ReportData data) throws IOException {
        return HtmlPage.html(PAGE, data.summary().model(), data);
    }
}
