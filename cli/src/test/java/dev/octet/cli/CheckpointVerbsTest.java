package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** quantize, dequantize and convert on checkpoints of tensors, as a user types them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CheckpointVerbsTest {
    private static final Path CHECKPOINTS = Path.of(System.getProperty("octet.testdata"), "checkpoints");
    private static final String LLAMA = CHECKPOINTS.resolve("llama-128-small").toString();

    @TempDir
    Path folder;

    private String out;

    @BeforeEach
    void name() {
        out = folder.resolve("out").toString();
    }

    private CommandLine run(String line) {
        return CommandLine.run(line.replace("LLAMA", LLAMA).replace("OUT", out).split(" "));
    }

    private static JsonNode json(CommandLine run) throws IOException {
        assertEquals(ExitCode.OK, run.code(), run.err());
        return new ObjectMapper().readTree(run.out());
    }

    /** The failed run told its reason in three lines and left nothing. */
    private CommandLine failed(String line, ExitCode code) {
        CommandLine run = run(line);
        assertEquals(code, run.code(), run.err());
        List<String> lines = run.err().lines().toList();
        assertEquals(3, lines.size(), run.err());
        assertTrue(lines.get(0).startsWith("octet: ") && lines.get(1).startsWith("  where: "), run.err());
        assertTrue(lines.get(2).startsWith("  fix:   "), run.err());
        assertEquals("", run.out());
        assertFalse(Files.exists(Path.of(out)));
        return run;
    }

    @Test
    void the_json_has_every_field_and_nothing_else() throws IOException {
        JsonNode answer = json(run("quantize LLAMA -o OUT --recipe fp8 --json"));
        List<String> names = new ArrayList<>();
        answer.fieldNames().forEachRemaining(names::add);
        assertEquals(
                List.of(
                        "model",
                        "output",
                        "source_layout",
                        "recipe",
                        "target",
                        "dry_run",
                        "source_bytes",
                        "target_bytes",
                        "seconds",
                        "gigabytes_per_second",
                        "resumed_files",
                        "exactness",
                        "weights",
                        "kept",
                        "shared_scales",
                        "notes",
                        "carried",
                        "left_behind"),
                names);
        assertEquals("plain", answer.get("source_layout").asText());
        assertEquals("fp8", answer.get("recipe").asText());
        assertEquals("compressed-tensors", answer.get("target").asText());
        assertFalse(answer.get("dry_run").asBoolean());
        assertEquals(7, answer.get("exactness").get("one rounding").asInt());
        assertEquals(7, answer.get("weights").size());
        assertEquals(
                "one rounding", answer.get("weights").get(0).get("exactness").asText());
        assertEquals(0, answer.get("resumed_files").asInt());
        assertEquals(
                List.of("generation_config.json"),
                List.of(answer.get("carried").get(0).asText()));
        JsonNode shared = answer.get("shared_scales");
        assertEquals(2, shared.size());
        assertTrue(shared.get(0).get("ratio").isNumber()
                && shared.get(0).get("lost_db").isNumber());
        long bytes = Files.size(Path.of(out, "model.safetensors"));
        assertEquals(bytes, answer.get("target_bytes").asLong());
    }

    @ParameterizedTest
    @CsvSource({
        "quantize LLAMA -o OUT --dry-run",
        "quantize LLAMA -o OUT --dry-run --json",
        "dequantize FOREIGN/hf-fp8-block -o OUT --dry-run",
        "convert FOREIGN/hf-fp8-block -o OUT --target modelopt --dry-run"
    })
    void a_dry_run_writes_nothing(String line) throws IOException {
        CommandLine run =
                run(line.replace("FOREIGN", CHECKPOINTS.resolve("foreign").toString()));
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertFalse(run.out().isBlank());
        try (var files = Files.list(folder)) {
            assertEquals(0, files.count());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "quantize LLAMA -o OUT --recipe fp9, USAGE",
        "quantize LLAMA -o OUT --target gguf, USAGE",
        "quantize LLAMA -o OUT --recipe nvfp4 --target fp8, USAGE",
        "quantize LLAMA -o OUT --scale-format ue8m0, USAGE",
        "quantize LLAMA -o OUT --keep q_porj, USAGE",
        "quantize LLAMA -o OUT --only q_porj, USAGE",
        "quantize LLAMA -o OUT --include q_porj, USAGE",
        "quantize LLAMA -o OUT --keep [, USAGE",
        "quantize LLAMA -o OUT --threads 0, USAGE",
        "quantize LLAMA, USAGE",
        "quantize LLAMA -o LLAMA, USAGE",
        "quantize LLAMA -o LLAMA/new, USAGE",
        "quantize LLAMA -o OUT --keep-scales, INPUT",
        "quantize LLAMA -o OUT --exact-only, INPUT",
        "quantize NOWHERE -o OUT, IO",
        "quantize LLAMA -o OUT --statistics NOWHERE, IO",
        "dequantize LLAMA -o OUT, INPUT",
        "dequantize LLAMA -o OUT --dtype f8, USAGE",
        "convert LLAMA -o OUT, USAGE",
        "convert LLAMA -o OUT --target fp8, INPUT"
    })
    void a_failure_has_its_exit_code_and_three_lines(String line, ExitCode code) {
        failed(line.replace("NOWHERE", folder.resolve("nowhere").toString()), code);
    }

    @Test
    void a_model_with_nothing_to_quantise_is_refused_with_the_reason() {
        CommandLine run = failed("quantize " + CHECKPOINTS.resolve("gpt2") + " -o OUT", ExitCode.INPUT);
        assertTrue(run.err().contains("there is no weight to quantise"), run.err());
    }

    @Test
    void what_is_in_the_way_is_overwritten_only_with_force() throws IOException {
        json(run("quantize LLAMA -o OUT --json"));
        CommandLine again = run("quantize LLAMA -o OUT");
        assertEquals(ExitCode.USAGE, again.code());
        assertTrue(again.err().contains("--force"), again.err());
        JsonNode forced = json(run("quantize LLAMA -o OUT --recipe mxfp8 --force --json"));
        assertEquals("mxfp8", forced.get("recipe").asText());
    }

    @Test
    void a_checkpoint_goes_through_all_three_verbs() throws IOException {
        String fp8 = folder.resolve("fp8").toString();
        String ct = folder.resolve("ct").toString();
        json(run("quantize LLAMA -o " + fp8 + " --recipe fp8-block --scale-format ue8m0 --target fp8 --json"));
        JsonNode converted =
                json(run("convert " + fp8 + " -o " + ct + " --target compressed-tensors --exact-only --json"));
        assertEquals(7, converted.get("exactness").get("exact").asInt());
        assertEquals("fp8", converted.get("source_layout").asText());
        JsonNode floats = json(run("dequantize " + ct + " -o OUT --dtype f32 --exact-only --json"));
        assertEquals(7, floats.get("exactness").get("exact").asInt());
        assertEquals(
                "float32",
                new ObjectMapper()
                        .readTree(Path.of(out, "config.json").toFile())
                        .get("dtype")
                        .asText());
        CommandLine table = run("quantize " + ct + " -o " + folder.resolve("again"));
        assertTrue(table.out().contains("7 double rounding"), table.out());
    }
}
