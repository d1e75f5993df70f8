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
import java.util.List;
import java.util.Locale;
import java.util.Properties;

/**
 * Assembles a self-contained page from its own content and script, the common frame, styles and script, the charting library, and the data
 * as JSON. A content security policy blocks all network requests of the page.
 */
public final class HtmlPage {
    private static final String CHART_PROPERTIES = "META-INF/maven/org.webjars.npm/chart.js/pom.properties";
    private static final String CHART_FOLDER = "META-INF/resources/webjars/chart.js/";

    /** Sections of several pages, each with a file of its own: {@code <!--RUN-->} stands for {@code run.html}. */
    private static final List<String> SECTIONS = List.of("layers", "notes", "run");

    private HtmlPage() {}

    /**
     * Writes page {@code name} to {@code path} atomically: a failure leaves an earlier file unchanged.
     *
     * @param name of its content and script: {@code report}, {@code diff}, {@code evaluate}, {@code verify}, {@code checkpoint},
     *     {@code sensitivity}
     * @param title title of the page, after the word Octet
     * @param data a record that Jackson can write
     * @throws IOException when the page cannot be written
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
        // each placeholder occurs once; replacing from the end avoids searching inserted text
        String page = own("page.html");
        page = insert(page, "/*SCRIPT*/", own(name + ".js"));
        page = insert(page, "/*SHARED*/", own("page.js"));
        page = insert(page, "/*CHART*/", chartScript());
        page = insert(page, "\"DATA\"", json(data));
        page = insert(page, "<!--CONTENT-->", content(name));
        page = insert(page, "/*STYLE*/", own("report.css"));
        return insert(page, "MODEL", escaped(title));
    }

    /** The content of a page with the sections that several have. */
    private static String content(String name) throws IOException {
        String content = own(name + ".html");
        for (String section : SECTIONS) {
            content = content.replace("<!--" + section.toUpperCase(Locale.ROOT) + "-->", own(section + ".html"));
        }
        return content;
    }

    private static String insert(String page, String placeholder, String text) {
        int at = page.indexOf(placeholder);
        if (at < 0) {
            throw new IllegalStateException("the page has no place for " + placeholder);
        }
        return page.substring(0, at) + text + page.substring(at + placeholder.length());
    }

    /** The data as JSON for a script element: a {@code <} in a name must not end the element. */
    private static String json(Object data) {
        try {
            // these characters occur only in JSON strings, where the escape is equivalent
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
            // a browser's developer tools would request this file
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
