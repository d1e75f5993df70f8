package dev.octet.converter.report;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.file.AtomicFile;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Properties;

/**
 * Puts a self-contained page together: what a page shows and the script that fills it, what all pages share (frame, styles, script), the
 * charting library, and data as JSON. A content security policy keeps the page from asking anyone for anything.
 */
public final class HtmlPage {
    private static final String CHART_PROPERTIES = "META-INF/maven/org.webjars.npm/chart.js/pom.properties";
    private static final String CHART_FOLDER = "META-INF/resources/webjars/chart.js/";

    private HtmlPage() {}

    /**
     * Writes page {@code name} to {@code path}: the whole page, or what was there before.
     *
     * @param name of its content and script: {@code report} or {@code diff}
     * @param title what the page is about, after the word Octet
     * @param data a record that Jackson can write
     * @throws IOException when it cannot be written
     */
    public static void write(String name, String title, Object data, Path path) throws IOException {
        byte[] page = html(name, title, data).getBytes(StandardCharsets.UTF_8);
        try (AtomicFile file = AtomicFile.create(path)) {
            file.write(ByteBuffer.wrap(page));
            file.commit();
        }
    }

    /** The page as text. */
    static String html(String name, String title, Object data) throws IOException {
        // each placeholder occurs once, and replacing from the end keeps inserted text from being searched again
        String page = own("page.html");
        page = insert(page, "/*SCRIPT*/", own(name + ".js"));
        page = insert(page, "/*SHARED*/", own("page.js"));
        page = insert(page, "/*CHART*/", chartScript());
        page = insert(page, "\"DATA\"", json(data));
        page = insert(page, "<!--CONTENT-->", own(name + ".html"));
        page = insert(page, "/*STYLE*/", own("report.css"));
        return insert(page, "MODEL", escaped(title));
    }

    private static String insert(String page, String placeholder, String text) {
        int at = page.indexOf(placeholder);
        if (at < 0) {
            throw new IllegalStateException("the page has no place for " + placeholder);
        }
        return page.substring(0, at) + text + page.substring(at + placeholder.length());
    }

    /** The data as JSON that can stand inside a script element: a {@code <} in a name must not end the element. */
    private static String json(Object data) {
        try {
            // outside of strings JSON has none of these characters, and inside of strings the escape means the same
            return JsonMapper.builder()
                    .build()
                    .writeValueAsString(data)
                    .replace("<", "\\u003c")
                    .replace(">", "\\u003e")
                    .replace("&", "\\u0026")
                    .replace("\u2028", "\\u2028")
                    .replace("\u2029", "\\u2029");
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("report data has no JSON form", e);
        }
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }

    private static String chartScript() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = library(CHART_PROPERTIES)) {
            properties.load(in);
        }
        try (InputStream in = library(CHART_FOLDER + properties.getProperty("version") + "/dist/chart.umd.min.js")) {
            String script = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            // a browser's developer tools would ask for this file
            return script.replaceAll("(?m)^//# sourceMappingURL=.*$", "");
        }
    }

    private static InputStream library(String name) throws IOException {
        InputStream in = HtmlPage.class.getClassLoader().getResourceAsStream(name);
        if (in == null) {
            throw new FileNotFoundException(name + " of the chart.js jar is not on the class path");
        }
        return in;
    }

    private static String own(String name) throws IOException {
        try (InputStream in = HtmlPage.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new FileNotFoundException(name + " is missing from octet-converter.jar");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
