package dev.octet.converter.report;

import java.io.IOException;
import java.nio.file.Path;

/** Writes {@link ReportData} as one self-contained HTML file. */
public final class HtmlReport {
    private static final String PAGE = "report";

    private HtmlReport() {}

    /**
     * Writes the report to {@code path}: the whole page, or what was there before.
     *
     * @throws IOException when it cannot be written
     */
    public static void write(ReportData data, Path path) throws IOException {
        HtmlPage.write(PAGE, data.summary().model(), data, path);
    }

    /** The page as text. */
    static String html(ReportData data) throws IOException {
        return HtmlPage.html(PAGE, data.summary().model(), data);
    }
}
