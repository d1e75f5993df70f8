package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
                        "schema",
                        "model",
                        "output",
                        "source_layout",
                        "architecture",
                        "recipe",
                        "rounding",
                        "scale_search",
                        "target",
                        "dry_run",
                        "source_bytes",
                        "target_bytes",
                        "seconds",
                        "gigabytes_per_second",
                        "resumed_files",
                        "exactness",
                        "rounding_errors",
                        "weights",
                        "kept",
                        "shared_scales",
                        "static_inputs",
                        "kv_cache_layers",
                        "query_layers",
                        "scales_per_head",
                        "unreached_experts",
                        "notes",
                        "carried",
                        "left_behind",
                        "transformed",
                        "predicted"),
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
        "quantize LLAMA -o OUT --kv-cache fp8, USAGE",
        "quantize LLAMA -o OUT --kv-cache int8, USAGE",
        "quantize LLAMA -o OUT --attention fp8, USAGE",
        "quantize LLAMA -o OUT --attention int8, USAGE",
        "quantize LLAMA -o OUT --attention fp8 --kv-cache fp8-per-head --statistics s, USAGE",
        "quantize LLAMA -o OUT --attention fp8 --kv-cache none --statistics s, USAGE",
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

    /** Statistics of the Linears and, with {@code cache}, of the keys and values of a checkpoint. */
    private String statistics(Path checkpoint, boolean cache, String... left) throws IOException {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        try (Checkpoint opened = Checkpoint.open(checkpoint)) {
            for (String name : opened.tensors().keySet()) {
                if (name.endsWith("_proj.weight")) {
                    tensors.put(name.replace(".weight", ""), seen(2));
                }
                if (cache && name.endsWith(".k_proj.weight")) {
                    tensors.put(name.replace(".k_proj.weight", ".k"), seen(896));
                    tensors.put(name.replace(".k_proj.weight", ".v"), seen(448));
                }
            }
        }
        for (String module : left) {
            tensors.put(module, TensorStatistics.EMPTY);
        }
        Path file = folder.resolve("made.stats");
        StatisticsFile.write(Statistics.of("ab", new DataPart("cd", "data", 1, 1), tensors), file);
        return file.toString();
    }

    private static TensorStatistics seen(float amax) {
        StatisticsAccumulator accumulator = new StatisticsAccumulator();
        accumulator.add(FloatBuffer.wrap(new float[] {amax, -amax / 2}));
        return accumulator.snapshot();
    }

    @Test
    void statistics_with_keys_and_values_are_used_for_the_cache_when_that_is_asked_for() throws IOException {
        String stats = statistics(Path.of(LLAMA), true);
        JsonNode answer = json(run(
                "quantize LLAMA -o OUT --recipe fp8 --target modelopt --kv-cache fp8 --json --statistics " + stats));
        assertEquals(7, answer.get("static_inputs").asInt());
        assertEquals(1, answer.get("kv_cache_layers").asInt());
        assertEquals(ExitCode.OK, run("verify OUT --for vllm,tensorrt-llm").code());
    }

    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf");
    private static final Path TOKENS =
            Path.of(System.getProperty("octet.testdata"), "golden", "calibration", "tokens.npz");

    @ParameterizedTest
    @CsvSource({
        "llama, --kv-cache fp8-per-head, 0, 2",
        "llama, --attention fp8-per-head, 2, 2",
        "gemma, --attention fp8-per-head --kv-cache fp8-per-head, 2, 1",
        "qwen3, --attention fp8, 2, 0"
    })
    void scales_of_heads_go_from_calibration_through_every_verb(
            String model, String options, int queryLayers, int keyHeads) throws IOException {
        Path source = MODELS.resolve(model);
        Path stats = folder.resolve("real.stats");
        assertEquals(
                ExitCode.OK,
                run("calibrate " + source + " -o " + stats + " --data " + TOKENS)
                        .code());
        JsonNode answer = json(run("quantize " + source + " -o OUT --json --statistics " + stats + " " + options));
        assertEquals(2, answer.get("kv_cache_layers").asInt());
        assertEquals(queryLayers, answer.get("query_layers").asInt());
        assertEquals(keyHeads > 0, answer.get("scales_per_head").asBoolean());
        CommandLine verified = run("verify OUT --for vllm,transformers --against " + source);
        assertEquals(ExitCode.OK, verified.code(), verified.out());
        String scale = "model.layers.1.self_attn.k_scale";
        JsonNode inspected = json(run("inspect OUT --json"));
        assertTrue(inspected.toString().contains(scale), inspected.toString());
        long scaleTensors = inspected.path("quantization").path("scale_tensors").asLong();
        assertEquals(7 * 2 + 2 * 2 + queryLayers, scaleTensors);
        assertEquals(ExitCode.OK, run("diff " + source + " OUT --json").code());
        Path converted = folder.resolve("converted");
        json(run("convert OUT -o " + converted + " --target compressed-tensors --json"));
        assertEquals(
                ExitCode.OK,
                run("verify " + converted + " --for vllm,transformers").code());
        try (Checkpoint written = Checkpoint.open(converted)) {
            Shape shape = requireNonNull(written.tensor(scale)).shape();
            assertEquals(keyHeads == 0 ? Shape.of(1) : Shape.of(keyHeads, 1, 1), shape);
        }
        CommandLine refused = run("convert OUT -o " + folder.resolve("other") + " --target fp8");
        assertEquals(ExitCode.INPUT, refused.code());
        assertTrue(refused.err().contains("layout fp8 has "), refused.err());
        Path plain = folder.resolve("plain");
        json(run("dequantize OUT -o " + plain + " --json"));
        try (Checkpoint written = Checkpoint.open(plain)) {
            assertNull(written.tensor(scale));
        }
    }

    @Test
    void statistics_without_heads_do_not_do_for_scales_of_heads() throws IOException {
        String stats = statistics(Path.of(LLAMA), true);
        CommandLine run = failed("quantize LLAMA -o OUT --kv-cache fp8-per-head --statistics " + stats, ExitCode.INPUT);
        assertTrue(run.err().contains("without those of each head: model.layers.0.self_attn.k"), run.err());
        assertTrue(run.err().contains("octet calibrate MODEL"), run.err());
    }

    @Test
    void scales_of_queries_are_refused_for_a_layout_that_has_none() throws IOException {
        String stats = statistics(Path.of(LLAMA), true);
        CommandLine run = failed(
                "quantize LLAMA -o OUT --recipe fp8 --target modelopt --attention fp8 --statistics " + stats,
                ExitCode.USAGE);
        assertTrue(run.err().contains("layout modelopt has no scales of queries"), run.err());
    }

    @Test
    void floats_have_no_scales_of_attention() {
        CommandLine run =
                failed("quantize LLAMA -o OUT --recipe none --transform rotate --kv-cache fp8", ExitCode.USAGE);
        assertTrue(run.err().contains("--kv-cache fp8 has no place in a model of floats"), run.err());
    }

    @Test
    void a_dynamic_recipe_takes_only_the_cache_from_the_statistics() throws IOException {
        String stats = statistics(Path.of(LLAMA), true);
        JsonNode answer = json(run("quantize LLAMA -o OUT --kv-cache fp8 --json --statistics " + stats));
        assertEquals(0, answer.get("static_inputs").asInt());
        assertEquals(1, answer.get("kv_cache_layers").asInt());
        assertTrue(answer.get("notes").toString().contains("only keys and values are used"), answer.toString());
    }

    @Test
    void a_cache_that_could_be_quantised_and_is_not_is_noted() throws IOException {
        String stats = statistics(Path.of(LLAMA), true);
        CommandLine run = run("quantize LLAMA -o OUT --recipe fp8 --dry-run --statistics " + stats);
        assertTrue(run.out().contains("1 attention layers; --kv-cache fp8 writes their scales"), run.out());
        assertTrue(run.out().contains("7 with a static scale"), run.out());
    }

    @Test
    void statistics_without_keys_and_values_do_not_do_for_the_cache() throws IOException {
        String stats = statistics(Path.of(LLAMA), false);
        CommandLine run =
                failed("quantize LLAMA -o OUT --recipe fp8 --kv-cache fp8 --statistics " + stats, ExitCode.INPUT);
        assertTrue(run.err().contains("model.layers.0.self_attn (K: missing, V: missing)"), run.err());
    }

    @Test
    void all_experts_that_no_sample_reached_are_printed() throws IOException {
        Path moe = Files.createDirectory(folder.resolve("moe"));
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        List<String> left = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            for (int e = 0; e < 40; e++) {
                String module = "model.layers.0.mlp.experts." + e + ".down_proj";
                Tensor weight = Tensor.allocate(arena, new TensorSpec(module + ".weight", DType.F32, Shape.of(16, 16)));
                weight.bytes().set(Tensor.F32_LE, 0, 1);
                tensors.put(weight.name(), weight);
                if (e % 2 == 1) {
                    left.add(module);
                }
            }
            SafetensorsWriter.write(moe.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
        }
        Files.writeString(moe.resolve("config.json"), "{\"model_type\": \"mixtral\"}");
        String stats = statistics(moe, false, left.toArray(String[]::new));
        String line = "quantize " + moe + " -o OUT --recipe fp8 --dry-run --statistics " + stats;
        CommandLine page = run(line);
        assertTrue(page.out().contains("model.layers.0.mlp.experts.*.down_proj  1, 3, 5, 7, 9, 11, "), page.out());
        assertTrue(page.out().contains("35, 37, 39"), page.out());
        assertEquals(20, json(run(line + " --json")).get("unreached_experts").size());
    }
}
