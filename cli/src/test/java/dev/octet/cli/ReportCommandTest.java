package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.file.FolderLock;
import dev.octet.trainer.Trainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet report}, and the page of {@code octet train --report}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReportCommandTest {
    private static final Pattern DATA =
            Pattern.compile("<script id=\"data\" type=\"application/json\">(.*?)</script>", Pattern.DOTALL);

    @TempDir
    Path folder;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static JsonNode data(Path page) throws IOException {
        String html = Files.readString(page);
        assertTrue(html.contains("default-src 'none'"));
        assertFalse(html.contains("<!--"), "a placeholder is left");
        Matcher data = DATA.matcher(html);
        assertTrue(data.find());
        return new ObjectMapper().readTree(data.group(1));
    }

    private static CommandLine good(String... words) {
        CommandLine line = CommandLine.run(words);
        assertEquals(ExitCode.OK, line.code(), line.err());
        return line;
    }

    private Path run(String name, int steps, int wanted) throws IOException {
        Path run = Files.createDirectories(folder.resolve(name));
        Files.writeString(
                run.resolve("run.json"),
                "{\"settings\": {\"steps\": \"" + wanted + "\", \"name\": \"" + name
                        + "\"}, \"sessions\": [{\"first_step\": 1}]}");
        for (int step = 1; step <= steps; step++) {
            add(run, step);
        }
        return run;
    }

    private static void add(Path run, int step) throws IOException {
        Files.writeString(
                run.resolve("metrics.jsonl"),
                "{\"step\":" + step + ",\"loss\":" + 10.0 / step + ",\"samples\":4,\"tokens\":0,\"seconds\":2}\n",
                StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
    }

    @Test
    void a_run_in_fp8_has_a_page_in_its_folder() throws IOException {
        TinyBert.samples(folder.resolve("s.npz"), 16, 1);
        Files.writeString(folder.resolve("train.yaml"), """
            data: {train: s.npz, eval: s.npz}
            loss: {type: mse, output: logits, distillation: {teacher: %s}}
            batch_size: 2
            steps: 2
            eval_every: 1
            precision: {mode: fp8}
            fp8_health: {every: 2}
            """.formatted(TinyBert.MODEL.toAbsolutePath()));
        String model = TinyBert.MODEL.toString();
        CommandLine train = good(
                "train", model, "--config", at("train.yaml"), "-o", at("run"), "--report", at("end.html"), "--quiet");
        assertTrue(train.out().contains("report: " + at("end.html") + "\n"), train.out());
        assertEquals(
                2,
                data(folder.resolve("end.html")).get("runs").get(0).get("step").asInt());

        CommandLine line = good("report", at("run"));
        assertTrue(line.out().matches("(?s).*complete +2 of 2 .*report: .*report.html, [0-9.]+ kB\n"), line.out());
        JsonNode drawn = data(folder.resolve("run/report.html"));
        assertEquals(0, drawn.get("refreshSeconds").asInt());
        JsonNode run = drawn.get("runs").get(0);
        assertEquals("run", run.get("name").asText());
        assertEquals(2, run.get("curves").get("loss").get("min").size());
        assertEquals(2, run.get("evaluations").get("eval_loss").get("min").size());
        JsonNode fp8 = run.get("fp8");
        assertEquals("[2]", fp8.get("columns").toString());
        long tensors =
                Files.readAllLines(folder.resolve("run/fp8_health.jsonl")).size();
        assertEquals(tensors, fp8.get("rows").size());
        assertEquals(6, run.get("scales").size());
        List<String> warned = new ArrayList<>();
        List<String> events = new ArrayList<>();
        run.get("events")
                .forEach(e -> (e.get("kind").asText().equals("FP8") ? warned : events)
                        .add(e.get("step").asText() + ": " + e.get("text").asText()));
        assertEquals(2, events.size());
        assertTrue(events.get(0).startsWith("1: started on "), events.get(0));
        assertEquals("2: checkpoints/step-2", events.get(1));
        List<String> said = train.err()
                .lines()
                .filter(l -> l.startsWith("step 2: "))
                .map(l -> l.substring("step ".length()))
                .toList();
        assertEquals(said.subList(0, 3), warned.subList(0, 3));
        assertEquals("2: and " + (warned.size() - 3) + " more tensors in FP8, see fp8_health.jsonl", said.get(3));
        assertEquals(
                "octet report " + at("run"), drawn.get("run").get("command").asText());

        CommandLine again = CommandLine.run("report", at("run"));
        assertEquals(ExitCode.USAGE, again.code());
        good("report", at("run"), "--force");
    }

    @Test
    void several_runs_share_a_page_beside_the_first_one() throws IOException {
        Path a = run("a", 3, 3);
        Path b = run("b", 2, 5);
        CommandLine line = good("report", a.toString(), b.toString(), "--json");
        JsonNode answer = new ObjectMapper().readTree(line.out());
        assertEquals("octet/report/1", answer.get("schema").asText());
        assertEquals(at("report.html"), answer.get("page").asText());
        assertEquals(
                Files.size(folder.resolve("report.html")), answer.get("bytes").asLong());
        assertEquals("complete", answer.get("runs").get(0).get("state").asText());
        assertEquals("stopped", answer.get("runs").get(1).get("state").asText());
        assertEquals(5.0, answer.get("runs").get(1).get("loss").asDouble());
        JsonNode runs = data(folder.resolve("report.html")).get("runs");
        assertEquals(
                List.of("a", "b"),
                runs.findValuesAsText("name").stream().distinct().toList());
        assertEquals("samples", runs.get(0).get("speedUnit").asText());
        assertEquals(
                2.0, runs.get(0).get("curves").get("speed").get("min").get(0).asDouble());
    }

    @Test
    void runs_of_the_same_name_are_told_apart_by_their_folders() throws IOException {
        Path a = run("x/run", 1, 1);
        Path b = run("y/run", 1, 1);
        good("report", a.toString(), b.toString(), "-o", at("page.html"));
        JsonNode runs = data(folder.resolve("page.html")).get("runs");
        assertEquals("x/run", runs.get(0).get("name").asText().replace('\\', '/'));
        assertEquals("y/run", runs.get(1).get("name").asText().replace('\\', '/'));
    }

    @Test
    void a_hundred_thousand_steps_are_a_page_of_less_than_half_a_megabyte() throws IOException {
        Path run = run("long", 0, 100_000);
        StringBuilder lines = new StringBuilder();
        for (int step = 1; step <= 100_000; step++) {
            lines.append("{\"step\":")
                    .append(step)
                    .append(",\"loss\":")
                    .append(Math.sin(step) + 2)
                    .append(",\"lr\":")
                    .append(1.0 / step)
                    .append(",\"grad_norm\":")
                    .append(Math.cos(step))
                    .append(",\"samples\":8,\"tokens\":2048,\"seconds\":")
                    .append(0.5 + 0.1 * Math.sin(3 * step))
                    .append("}\n");
        }
        Files.writeString(run.resolve("metrics.jsonl"), lines);
        good("report", run.toString());
        assertTrue(Files.size(run.resolve("report.html")) < 500_000, Files.size(run.resolve("report.html")) + " bytes");
        JsonNode loss = data(run.resolve("report.html"))
                .get("runs")
                .get(0)
                .get("curves")
                .get("loss");
        assertEquals(128, loss.get("width").asInt());
        assertEquals(782, loss.get("min").size());
        assertEquals(1.0, loss.get("min").get(5).asDouble(), 1e-3);
        assertEquals(3.0, loss.get("max").get(5).asDouble(), 1e-3);
    }

    @Test
    @Timeout(60)
    void a_run_that_goes_on_is_followed_to_its_end() throws Exception {
        Path run = run("live", 2, 4);
        Path page = run.resolve("report.html");
        CompletableFuture<CommandLine> following;
        try (FolderLock _ = FolderLock.of(run, Trainer.LOCK)) {
            following = CompletableFuture.supplyAsync(
                    () -> CommandLine.run("report", run.toString(), "--follow", "--every", "1", "--progress", "plain"));
            while (!Files.exists(page)) {
                TimeUnit.MILLISECONDS.sleep(20);
            }
            JsonNode first = data(page);
            assertEquals(1, first.get("refreshSeconds").asInt());
            assertEquals("RUNNING", first.get("runs").get(0).get("state").asText());
            assertEquals(2, first.get("runs").get(0).get("step").asInt());
            add(run, 3);
            while (data(page).get("runs").get(0).get("step").asInt() < 3) {
                TimeUnit.MILLISECONDS.sleep(20);
            }
            add(run, 4);
        }
        CommandLine line = following.get();
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.err().contains("following: step 2 of 4"), line.err());
        JsonNode last = data(page);
        assertEquals(0, last.get("refreshSeconds").asInt());
        assertEquals("COMPLETE", last.get("runs").get(0).get("state").asText());
        assertEquals(
                4, last.get("runs").get(0).get("curves").get("loss").get("min").size());
        assertTrue(line.out().contains("complete"), line.out());
    }

    @Test
    void a_run_that_is_over_is_followed_no_further_than_one_page() throws IOException {
        Path run = run("over", 2, 4);
        CommandLine line = good("report", run.toString(), "--follow");
        assertTrue(line.out().contains("stopped"), line.out());
        assertEquals(0, data(run.resolve("report.html")).get("refreshSeconds").asInt());
    }

    @ParameterizedTest
    @ValueSource(strings = {"{", "[]", "{\"sessions\": 7, \"settings\": []}"})
    void a_damaged_manifest_is_said_or_its_facts_are_missing(String manifest) throws IOException {
        Path run = run("a", 2, 2);
        Files.writeString(run.resolve("run.json"), manifest);
        CommandLine line = CommandLine.run("report", run.toString());
        assertEquals(manifest.length() < 3 ? ExitCode.INPUT : ExitCode.OK, line.code(), line.err());
        assertEquals(manifest.length() >= 3, Files.exists(run.resolve("report.html")));
    }

    @Test
    void names_of_hostile_files_do_not_leave_the_data() throws IOException {
        Path run = run("a", 1, 1);
        Files.writeString(
                run.resolve("guard.jsonl"),
                "{\"step\":1,\"action\":\"</script><script>alert(1)</script>\",\"reason\":\"<!--\"}\n");
        good("report", run.toString());
        JsonNode events = data(run.resolve("report.html")).get("runs").get(0).get("events");
        assertEquals(
                "</script><script>alert(1)</script>: <!--",
                events.get(1).get("text").asText());
    }

    private void refused(ExitCode code, String why, String... words) throws IOException {
        CommandLine line = CommandLine.run(words);
        assertEquals(code, line.code(), line.err());
        assertTrue(line.err().contains(why), line.err());
        assertFalse(Files.exists(folder.resolve("page.html")));
    }

    @Test
    void what_is_not_a_run_is_refused_alone_and_among_runs() throws IOException {
        String a = run("a", 1, 1).toString();
        Files.createDirectories(folder.resolve("model"));
        Files.writeString(folder.resolve("model/config.json"), "{}");
        refused(
                ExitCode.USAGE,
                "the folder is not a run: it has no run.json",
                "report",
                at("model"),
                "-o",
                at("page.html"));
        refused(
                ExitCode.USAGE,
                "the folder is not a run: it has no run.json",
                "report",
                a,
                at("model"),
                "-o",
                at("page.html"));
        refused(
                ExitCode.USAGE,
                "is a file, and a run is a folder",
                "report",
                TinyBert.MODEL.toString(),
                "-o",
                at("page.html"));
        refused(ExitCode.IO, "nowhere", "report", at("nowhere"), "-o", at("page.html"));
        refused(ExitCode.USAGE, "given twice", "report", a, at("a/../a"), "-o", at("page.html"));
        refused(ExitCode.USAGE, "missing RUN", "report");
        refused(ExitCode.USAGE, "--every without --follow", "report", a, "--every", "3");
        refused(ExitCode.USAGE, "metrics.jsonl", "report", a, "-o", a + "/metrics.jsonl", "--force");
    }
}
