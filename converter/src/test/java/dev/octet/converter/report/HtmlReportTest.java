package dev.octet.converter.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HtmlReportTest {
    private static final Pattern DATA =
            Pattern.compile("<script id=\"data\" type=\"application/json\">(.*?)</script>", Pattern.DOTALL);

    @TempDir
    Path folder;

    /** A report as of an encoder with {@code blocks} blocks. */
    static ReportData encoder(int blocks) {
        SplittableRandom random = new SplittableRandom(7);
        List<ReportData.Layer> layers = new ArrayList<>();
        List<ReportData.Activation> activations = new ArrayList<>();
        List<ReportData.DecisionRow> decisions = new ArrayList<>();
        for (int b = 0; b < blocks; b++) {
            for (String part : List.of(
                    "attention/self/query",
                    "attention/self/key",
                    "attention/self/value",
                    "attention/output/dense",
                    "intermediate/dense",
                    "output/dense")) {
                String name = "/encoder/layer." + b + "/" + part + "/MatMul";
                double clip = Math.scalb(1 + random.nextDouble(), random.nextInt(1, 6));
                layers.add(new ReportData.Layer(
                        name,
                        "Linear",
                        26 + 6 * random.nextDouble() - (part.equals("output/dense") ? 9 : 0),
                        0.0004,
                        0.0031,
                        clip,
                        random.nextDouble() * 1e-4));
                decisions.add(new ReportData.DecisionRow(name, "Linear", true, "E4M3FN weights and input"));
                if (!part.contains("key") && !part.contains("value")) {
                    activations.add(activation(name + "_input", clip, random));
                }
            }
            decisions.add(new ReportData.DecisionRow(
                    "/encoder/layer." + b + "/output/LayerNorm",
                    "LayerNorm",
                    true,
                    "one quantisation for 3 consumers"));
        }
        decisions.add(new ReportData.DecisionRow("/pooler/dense/Gemm", "Linear", false, "matched by --keep pooler"));
        return new ReportData(
                new ReportData.Summary(
                        "all-minilm-l6-v2.onnx",
                        "fp8",
                        "gptq (second moments of the samples)",
                        "absmax",
                        "onnxruntime",
                        "glosses.jsonl",
                        256,
                        90_387_606,
                        58_500_000,
                        new ReportData.Quality("glosses.jsonl", 400, 0.99785, 0.99637, 23.4, 0.99692)),
                layers,
                "at the output of each converted layer",
                activations,
                decisions,
                List.of(
                        new ReportData.Part("Linears", 42_467_328, 10_616_832),
                        new ReportData.Part("embeddings", 47_669_760, 47_669_760),
                        new ReportData.Part("graph and names", 250_518, 213_408)),
                new ReportData.Trained(
                        "trained.onnx",
                        new ReportData.Quality("glosses.jsonl", 400, 0.97658, 0.9615, 13.1, 0.97272),
                        new ReportData.Quality("glosses.jsonl", 400, 0.99885, 0.99737, 25.4, 0.99792),
                        List.of(new ReportData.Point(1, 0.4), new ReportData.Point(2, 0.2)),
                        List.of()),
                new RunFacts(
                        "octet quantize all-minilm-l6-v2.onnx -o fp8.onnx --calibration glosses.jsonl",
                        "2026-11-23 15:30 UTC",
                        List.of(new RunFacts.Digest("model", "ab".repeat(32))),
                        List.of(
                                new ReportData.Version("Octet", "0.1.0"),
                                new ReportData.Version("ONNX Runtime", "1.29.0"),
                                new ReportData.Version("Java", "25.0.1")),
                        List.of(
                                new ReportData.Timing("import", 0.8),
                                new ReportData.Timing("calibrate", 21.4),
                                new ReportData.Timing("convert", 1.9))),
                List.of("2 initialisers that the exporter had merged were given back their own names"));
    }

    private static ReportData.Activation activation(String name, double clip, SplittableRandom random) {
        List<Long> counts = new ArrayList<>();
        int perOctave = 4;
        double last = Math.log(clip) / Math.log(2);
        for (int i = 0; i < 24 * perOctave; i++) {
            double log2 = -18 + (double) i / perOctave;
            double density = 4e6 * Math.exp(-Math.pow((log2 + 1.5) / 2.6, 2)) * (0.8 + 0.4 * random.nextDouble());
            counts.add(log2 > last ? 0L : (long) density);
        }
        return new ReportData.Activation(name, -18, perOctave, counts, clip, clip);
    }

    private static JsonNode dataOf(String page) throws IOException {
        Matcher matcher = DATA.matcher(page);
        assertTrue(matcher.find());
        return new ObjectMapper().readTree(matcher.group(1));
    }

    @Test
    void the_page_holds_all_the_data() throws IOException {
        Path file = folder.resolve("report.html");
        HtmlReport.write(encoder(6), file);
        JsonNode data = dataOf(Files.readString(file));
        assertEquals(36, data.get("layers").size());
        assertEquals(24, data.get("activations").size());
        assertEquals(43, data.get("decisions").size());
        assertEquals(
                0.99637, data.get("summary").get("quality").get("cosineMin").asDouble());
    }

    @Test
    void the_page_asks_nobody_for_anything() throws IOException {
        String page = HtmlReport.html(encoder(1));
        assertTrue(page.contains("default-src 'none'"));
        for (String outside : List.of(" src=", " href=", "@import", "url(", "sourceMappingURL")) {
            String own = page.replaceAll("(?s)<script>.*?</script>", "");
            assertFalse(own.contains(outside), outside);
        }
        assertFalse(page.contains("sourceMappingURL"));
    }

    @Test
    void a_name_that_ends_a_script_element_stays_a_name() throws IOException {
        String name = "</script><script>alert(1)</script><!--\u2028&amp;";
        ReportData plain = encoder(1);
        ReportData hostile = new ReportData(
                new ReportData.Summary("<b>\"model\"</b>", "fp8", "", "", "", "", 0, 1, 1, null),
                plain.layers(),
                plain.layerMeasure(),
                plain.activations(),
                List.of(new ReportData.DecisionRow(name, "Linear", false, name)),
                List.of(new ReportData.Part(name, 1, 1)),
                null,
                new RunFacts(name, name, List.of(), List.of(), List.of()),
                List.of(name));
        String page = HtmlReport.html(hostile);
        assertFalse(page.contains("<script>alert"));
        assertFalse(page.contains("<b>"));
        assertEquals(name, dataOf(page).get("decisions").get(0).get("node").asText());
        assertEquals(count(HtmlReport.html(plain), "</script>"), count(page, "</script>"));
    }

    private static long count(String text, String part) {
        return Pattern.compile(Pattern.quote(part)).matcher(text).results().count();
    }

    @Test
    void a_model_named_like_a_placeholder_is_only_a_name() throws IOException {
        String name = "/*STYLE*/ <!--CONTENT--> \"DATA\" /*CHART*/ /*SHARED*/ /*SCRIPT*/ MODEL";
        ReportData plain = encoder(1);
        ReportData odd = new ReportData(
                new ReportData.Summary(name, "", "", "", "", "", 0, 1, 1, null),
                plain.layers(),
                "",
                List.of(),
                List.of(),
                List.of(),
                null,
                RunFacts.NONE,
                List.of());
        String page = HtmlReport.html(odd);
        assertEquals(name, dataOf(page).get("summary").get("model").asText());
        assertTrue(page.contains("<title>Octet: /*STYLE*/ &lt;!--CONTENT--&gt; &quot;DATA&quot; /*CHART*/"
                + " /*SHARED*/ /*SCRIPT*/ MODEL</title>"));
        assertEquals(count(HtmlReport.html(plain), "<main>"), count(page, "<main>"));
    }

    @Test
    void numbers_that_json_lacks_arrive_as_text() throws IOException {
        ReportData.Layer layer = new ReportData.Layer("n", "Linear", Double.POSITIVE_INFINITY, 1, 1, Double.NaN, 0);
        ReportData data = new ReportData(
                encoder(1).summary(),
                List.of(layer),
                "",
                List.of(),
                List.of(),
                List.of(),
                null,
                RunFacts.NONE,
                List.of());
        JsonNode written = dataOf(HtmlReport.html(data)).get("layers").get(0);
        assertEquals("Infinity", written.get("sqnrDb").asText());
        assertEquals("NaN", written.get("inputClip").asText());
    }

    @Test
    void where_it_cannot_be_written_nothing_is_left() throws IOException {
        Path missing = folder.resolve("no-such-folder").resolve("report.html");
        assertThrows(IOException.class, () -> HtmlReport.write(encoder(1), missing));
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(0, left.count());
        }
    }

    @Test
    void the_sample_page_for_looking_at_is_written() throws IOException {
        // opened by hand after changes to the page's styles or scripts
        HtmlReport.write(encoder(6), Path.of("target", "report-sample.html"));
        HtmlReport.write(encoder(80), Path.of("target", "report-sample-large.html"));
        assertTrue(Files.size(Path.of("target", "report-sample.html")) > 200_000);
    }

    /** The shared script and that of a page stand in one scope: a name that both declare leaves the page blank. */
    @Test
    void no_script_declares_a_name_twice_or_uses_an_element_that_its_page_lacks() throws IOException {
        Pattern declared = Pattern.compile("(?m)^(?:const|let|function) (\\w+)");
        Pattern used = Pattern.compile("\\b(?:byId|hide)\\('([\\w-]+)'\\)");
        Path sources = Path.of("src/main/resources/dev/octet/converter/report");
        List<String> problems = new ArrayList<>();
        try (Stream<Path> all = Files.list(sources)) {
            for (Path script : all.filter(p -> p.toString().endsWith(".js")).toList()) {
                String name = String.valueOf(script.getFileName()).replace(".js", "");
                if (name.equals("page")) {
                    continue;
                }
                String page = HtmlPage.html(name, "", List.of());
                String shared = Files.readString(sources.resolve("page.js"));
                String own = Files.readString(script);
                Set<String> names = new HashSet<>();
                declared.matcher(shared).results().forEach(m -> names.add(m.group(1)));
                declared.matcher(own)
                        .results()
                        .filter(m -> !names.add(m.group(1)))
                        .forEach(m -> problems.add(name + ": " + m.group()));
                used.matcher(own)
                        .results()
                        .filter(m -> !page.contains("id=\"" + m.group(1) + "\""))
                        .forEach(m -> problems.add(name + ": no element " + m.group(1)));
            }
        }
        assertEquals(List.of(), problems);
    }
}
