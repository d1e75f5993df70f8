package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The pages that {@code --report} writes, by the data that they are drawn from. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReportPagesTest {
    private static final Pattern DATA =
            Pattern.compile("<script id=\"data\" type=\"application/json\">(.*?)</script>", Pattern.DOTALL);
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String MODEL = TinyBert.MODEL.toString();
    private static final String LLAMA =
            TESTDATA.resolve("checkpoints/llama-128-small").toString();

    @TempDir
    Path folder;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private JsonNode page(ExitCode code, String... words) throws IOException {
        String[] line = new String[words.length + 3];
        System.arraycopy(words, 0, line, 0, words.length);
        line[words.length] = "--report";
        line[words.length + 1] = at("page.html");
        line[words.length + 2] = "--quiet";
        CommandLine run = CommandLine.run(line);
        assertEquals(code, run.code(), run.err());
        assertTrue(run.out().matches("(?s).*report:? +" + Pattern.quote(at("page.html")) + "\n.*"), run.out());
        String page = Files.readString(folder.resolve("page.html"));
        assertTrue(page.contains("default-src 'none'"));
        assertFalse(page.contains("<!--"), "a placeholder is left");
        Matcher data = DATA.matcher(page);
        assertTrue(data.find());
        JsonNode found = new ObjectMapper().readTree(data.group(1));
        String typed = "octet " + String.join(" ", line);
        assertEquals(typed, found.get("run").get("command").asText());
        assertTrue(found.get("run").get("date").asText().matches("20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d .+"));
        assertEquals(
                List.of("Octet"),
                found.get("run").get("versions").findValuesAsText("name").subList(0, 1));
        return found;
    }

    private String samples() throws IOException {
        return TinyBert.samples(folder.resolve("s.npz"), 6, 1).toString();
    }

    @Test
    void a_quantised_graph_says_how_it_was_rounded_of_what_it_was_made_and_where_the_bytes_are() throws IOException {
        JsonNode data = page(ExitCode.OK, "quantize", MODEL, "-o", at("m.onnx"), "--data", samples());
        assertEquals(
                "gptq (second moments of the samples)",
                data.get("summary").get("rounding").asText());
        JsonNode digests = data.get("run").get("digests");
        assertEquals(Sha256.of(TinyBert.MODEL), digests.get(0).get("sha256").asText());
        assertEquals(
                Sha256.of(folder.resolve("m.onnx")),
                digests.get(2).get("sha256").asText());
        List<String> versions = data.get("run").get("versions").findValuesAsText("name");
        assertEquals(List.of("Octet", "ONNX Runtime", "Java", "device"), versions);
        JsonNode parts = data.get("parts");
        assertEquals("Linears", parts.get(0).get("name").asText());
        assertEquals(
                4 * parts.get(0).get("converted").asLong(),
                parts.get(0).get("original").asLong());
        assertEquals("embeddings", parts.get(1).get("name").asText());
        long sum = 0;
        for (JsonNode part : parts) {
            sum += part.get("converted").asLong();
        }
        assertEquals(Files.size(folder.resolve("m.onnx")), sum);
    }

    @Test
    void an_evaluation_has_a_page_with_its_gates() throws IOException {
        JsonNode data =
                page(ExitCode.CHECK_FAILED, "evaluate", MODEL, MODEL, "--data", samples(), "--gate", "cosine=1.5");
        assertFalse(data.get("result").get("gates").get(0).get("passed").asBoolean());
        assertEquals(14, data.get("result").get("layers").size());
        assertEquals(3, data.get("run").get("digests").size());
    }

    @Test
    void sensitivity_has_a_page_with_every_Linear_and_the_curve() throws IOException {
        JsonNode data = page(ExitCode.OK, "sensitivity", MODEL, "--data", samples(), "--formats", "fp8-weight-only");
        JsonNode format = data.get("result").get("formats").get(0);
        assertEquals(14, format.get("layers").size());
        assertTrue(data.get("result").get("curve").size() > 5);
        assertEquals(2, data.get("run").get("digests").size());
    }

    @Test
    void a_quantised_checkpoint_has_a_page_with_the_error_of_each_weight() throws IOException {
        JsonNode data = page(ExitCode.OK, "quantize", LLAMA, "-o", at("fp8"));
        assertEquals(7, data.get("weights").size());
        data.get("weights").forEach(w -> assertTrue(w.get("sqnrDb").asDouble() > 30, w.toString()));
        assertEquals("nearest", data.get("outcome").get("rounding").asText());
        assertEquals(
                List.of("quantised weights", "their scales", "embeddings and heads", "others"),
                data.get("parts").findValuesAsText("name"));
        JsonNode weights = data.get("parts").get(0);
        assertEquals(
                2 * weights.get("converted").asLong(), weights.get("original").asLong());
    }

    @Test
    void a_verification_has_a_page_with_its_findings() throws IOException {
        CommandLine made = CommandLine.run("quantize", LLAMA, "-o", at("fp8"), "--quiet");
        assertEquals(ExitCode.OK, made.code(), made.err());
        JsonNode data = page(ExitCode.OK, "verify", at("fp8"), "--for", "vllm,tensorrt-llm");
        assertEquals(
                List.of("method-supported"), data.get("result").get("findings").findValuesAsText("rule"));
    }

    @Test
    void a_page_that_exists_is_refused_before_any_work() throws IOException {
        Files.writeString(folder.resolve("page.html"), "precious");
        CommandLine run = CommandLine.run("quantize", LLAMA, "-o", at("fp8"), "--report", at("page.html"));
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        assertFalse(Files.exists(folder.resolve("fp8")));
        assertEquals("precious", Files.readString(folder.resolve("page.html")));
    }
}
