package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class InspectCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    @TempDir
    Path folder;

    private static JsonNode json(Path model) throws IOException {
        CommandLine run = CommandLine.run("inspect", "--json", model.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals("", run.err());
        return new ObjectMapper().readTree(run.out());
    }

    @Test
    void a_safetensors_file_is_counted_by_dtype() throws IOException {
        JsonNode facts = json(TESTDATA.resolve("golden/safetensors/every_dtype.safetensors"));
        assertEquals("safetensors", facts.get("format").asText());
        long count = 0;
        for (JsonNode share : facts.get("tensors").get("by_dtype")) {
            count += share.get("count").asLong();
        }
        assertEquals(facts.get("tensors").get("count").asLong(), count);
        assertTrue(facts.get("quantization").get("float8_tensors").asInt() >= 2);
        assertTrue(facts.get("graph").isNull());
    }

    @Test
    void the_parameters_of_a_graph_are_listed() throws IOException {
        Path model = TESTDATA.resolve("models/tiny-onnx/llama_eager_script17.onnx");
        JsonNode parameters = json(model).get("parameters");
        assertEquals(21, parameters.size());
        CommandLine run = CommandLine.run("inspect", "--parameters", model.toString());
        for (JsonNode p : parameters) {
            assertTrue(run.out().contains("  " + p.get("name").asText() + " "), run.out());
        }
    }

    @Test
    void parameters_that_the_export_wrote_twice_are_shown() throws IOException {
        Path model = TESTDATA.resolve("models/tiny-onnx/gpt2_eager_script17.onnx");
        JsonNode tie = json(model).at("/ties/0");
        assertEquals("m.transformer.wte.weight", tie.get("original").asText());
        assertEquals("m.lm_head.weight", tie.get("copy").asText());
        assertTrue(tie.get("transposed").asBoolean());
        CommandLine run = CommandLine.run("inspect", "--parameters", model.toString());
        assertTrue(run.out().contains("m.lm_head.weight has the elements of m.transformer.wte.weight"), run.out());
    }

    @Test
    void the_table_shows_what_the_json_says() throws IOException {
        Path model = TESTDATA.resolve("golden/safetensors/every_dtype.safetensors");
        CommandLine run = CommandLine.run("inspect", model.toString());
        assertEquals(ExitCode.OK, run.code());
        for (JsonNode share : json(model).get("tensors").get("by_dtype")) {
            assertTrue(run.out().contains("  " + share.get("dtype").asText() + " "), run.out());
        }
    }

    @Test
    void a_folder_with_a_configuration_shows_its_quantisation() throws IOException {
        Files.copy(TESTDATA.resolve("golden/safetensors/scalar.safetensors"), folder.resolve("model.safetensors"));
        Files.writeString(folder.resolve("config.json"), """
            {"model_type": "bert", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
            """);
        JsonNode settings = json(folder).get("quantization").get("settings");
        assertEquals("fp8", settings.get("quantization_config.quant_method").asText());
        assertEquals(
                "[128,128]",
                settings.get("quantization_config.weight_block_size").asText());
    }

    @Test
    void a_configuration_that_is_not_json_is_refused() throws IOException {
        Files.copy(TESTDATA.resolve("golden/safetensors/scalar.safetensors"), folder.resolve("model.safetensors"));
        Files.writeString(folder.resolve("config.json"), "{\"model_type\": ");
        CommandLine run = CommandLine.run("inspect", folder.toString());
        assertEquals(ExitCode.INPUT, run.code());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void quantised_linears_of_a_graph_are_counted_and_training_changes_the_others() throws IOException {
        String fp8 = folder.resolve("fp8.onnx").toString();
        CommandLine.run("quantize", TinyBert.MODEL.toString(), "-o", fp8, "--recipe", "fp8-weight-only", "--quiet");
        JsonNode facts = json(Path.of(fp8));
        assertEquals(14, facts.at("/layers/linear").asInt());
        assertEquals(14, facts.at("/layers/quantized_linear").asInt());
        assertEquals(
                14, facts.at("/quantization/forms/E4M3FN per column, scale F32").asInt(), facts.toString());
        assertEquals(json(TinyBert.MODEL).at("/tensors/parameters"), facts.at("/tensors/parameters"));
        String tables = folder.resolve("tables.onnx").toString();
        CommandLine.run(
                "quantize",
                TinyBert.MODEL.toString(),
                "-o",
                tables,
                "--recipe",
                "fp8-weight-only",
                "--embeddings",
                "int8",
                "--quiet");
        assertEquals(
                facts.at("/tensors/parameters"),
                json(Path.of(tables)).at("/tensors/parameters"),
                "rows of integers count");
        String page = CommandLine.run("inspect", fp8).out();
        assertTrue(page.contains("that training may change, 6.3 k elements; the 14 quantised weights stay"), page);
        assertEquals(1, page.lines().filter(l -> l.contains("octet.recipe")).count(), "settings once: " + page);
    }

    @Test
    void a_folder_of_tensors_is_not_said_to_be_made_by_octet() throws IOException {
        Path llama = TESTDATA.resolve("checkpoints/llama");
        String page = CommandLine.run("inspect", llama.toString()).out();
        for (String absent : List.of("producer", "IR version", "opset", "QuantizeLinear")) {
            assertFalse(page.contains(absent), page);
        }
        assertTrue(page.contains("50 nodes, which Octet builds from config.json"), page);
        assertTrue(
                page.contains("2 layers, hidden 32, MLP 64, 4 heads (2 key-value), vocabulary 101, context 64"), page);
        assertTrue(page.contains("parameters    25.1 k"), page);
        JsonNode facts = json(llama);
        assertEquals("CONFIGURATION", facts.at("/graph/source").asText());
        assertEquals("", facts.at("/graph/producer").asText());
        assertEquals(25056, facts.at("/tensors/parameters").asLong());
        assertEquals(2, facts.at("/dimensions/key_value_heads").asInt());
    }

    @Test
    void the_tensors_of_a_quantised_checkpoint_are_listed_with_their_scales() throws IOException {
        Path model = TESTDATA.resolve("checkpoints/foreign/ct-nvfp4");
        JsonNode facts = json(model);
        assertEquals(
                json(TESTDATA.resolve("checkpoints/llama-128-small")).at("/tensors/parameters"),
                facts.at("/tensors/parameters"),
                "codes packed two to a byte count as two");
        assertEquals(7, facts.at("/layers/quantized_linear").asInt());
        assertEquals("compressed-tensors", facts.at("/quantization/layout").asText());
        assertTrue(facts.get("parameters").findValuesAsText("name").contains("model.layers.0.mlp.up_proj.weight"));
        CommandLine run = CommandLine.run("inspect", "--tensors", model.toString());
        String line = run.out()
                .lines()
                .filter(l -> l.strip().startsWith("model.layers.0.mlp.up_proj.weight_packed"))
                .findFirst()
                .orElseThrow();
        for (String part :
                List.of("U8", "[256, 64]", "16.4 kB", "E2M1 per 16, scale F8_E4M3FN x F32, weight of [256, 128]")) {
            assertTrue(line.contains(part), line);
        }
        assertEquals(facts.at("/tensors/count").asInt(), facts.get("list").size());
        for (JsonNode tensor : facts.get("list")) {
            assertTrue(run.out().contains("  " + tensor.get("name").asText() + " "), run.out());
        }
    }

    @Test
    void a_training_run_says_how_far_it_is_and_how_to_go_on() throws IOException {
        Path run = Files.createDirectories(folder.resolve("runs/first"));
        Files.createDirectories(run.resolve("checkpoints/step-20"));
        Files.createDirectories(run.resolve("checkpoints/step-40"));
        Files.writeString(run.resolve("config.yaml"), "steps: 60\n");
        Files.writeString(run.resolve("run.json"), """
            {"settings": {"steps": "60"}, "sessions": [{"started": "2026-11-23T12:36:49Z", "octet": "0.1.0",
             "device": "cpu", "precision": "fp8 delayed, bf16", "trained_parameters": 560640, "model": "gone/model.onnx"}]}
            """);
        Files.writeString(run.resolve("metrics.jsonl"), """
            {"step":40,"loss":4.25}
            {"step":40,"eval_loss":5.5,"eval_perplexity":244.7}
            {"step":41,"loss":4.5}
            {"step":42,"lo\
            """);
        CommandLine page = CommandLine.run("inspect", run.toString());
        assertEquals(ExitCode.OK, page.code(), page.err());
        for (String part : List.of(
                "41 of 60",
                "last 4.5000, best 4.2500",
                "5.5000 at step 40, best 5.5000, perplexity 244.700",
                "steps 20, 40",
                "560.6 k trained",
                "gone/model.onnx (no longer there)",
                "octet train --resume ",
                "octet export ")) {
            assertTrue(page.out().contains(part), part + " in " + page.out());
        }
        assertEquals("octet train --resume " + run, json(run).get("resume_with").asText());
        assertEquals(
                "octet export " + run + " -o " + run.resolve("model.onnx") + " --target onnxruntime",
                json(run).get("export_with").asText());
        assertEquals(41, json(run).get("step").asInt());
        assertEquals(41, json(run.resolve("checkpoints/step-20")).get("step").asInt(), "a checkpoint is of its run");
        Files.writeString(run.resolve("run.json"), "{");
        assertEquals(ExitCode.INPUT, CommandLine.run("inspect", run.toString()).code());
    }

    @Test
    void statistics_and_second_moments_say_what_they_were_taken_of() throws IOException {
        Path statistics = folder.resolve("model.stats");
        String samples = TinyBert.samples(folder.resolve("samples.npz"), 4, 1).toString();
        CommandLine made = CommandLine.run(
                "calibrate",
                TinyBert.MODEL.toString(),
                "-o",
                statistics.toString(),
                "--calibration",
                samples,
                "--quiet");
        assertEquals(ExitCode.OK, made.code(), made.err());
        assertTrue(made.out().contains("tensors     16"), made.out());
        String page = CommandLine.run("inspect", statistics.toString()).out();
        assertTrue(page.contains("statistics of activations"), page);
        assertTrue(page.contains("samples.npz  4 of 4"), page);
        assertEquals(16, json(statistics).get("activations").size());

        Path moments = folder.resolve("model.moments");
        SecondMoment moment = new SecondMoment(3);
        moment.add(FloatBuffer.wrap(new float[] {1, 2, 3, 4, 5, 6}));
        new SecondMoments(Map.of("layer/input", moment), Map.of("octet.samples", "4")).write(moments);
        JsonNode facts = json(moments);
        assertEquals("second-moments", facts.get("kind").asText());
        assertEquals(3, facts.at("/activations/0/channels").asInt());
        assertEquals(2, facts.at("/activations/0/elements").asInt());
        assertEquals(4, facts.get("samples").asInt());
        assertTrue(CommandLine.run("inspect", moments.toString()).out().contains("layer/input"));
    }

    @Test
    void a_model_of_hugging_face_is_not_downloaded_but_the_command_is_named() {
        CommandLine run = CommandLine.run("inspect", "sentence-transformers/all-MiniLM-L6-v2");
        assertEquals(ExitCode.IO, run.code());
        OctetTest.assertThreeLines(run);
        assertTrue(
                run.err().contains("hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir all-MiniLM-L6-v2"),
                run.err());
        assertFalse(CommandLine.run("inspect", "models/there.onnx").err().contains("hf download"));
    }

    static List<Path> malformedFiles() throws IOException {
        try (Stream<Path> files = Files.list(TESTDATA.resolve("hostile/safetensors"))) {
            return files.filter(f -> f.getFileName().toString().startsWith("bad_"))
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("malformedFiles")
    void a_malformed_file_exits_3_with_three_lines(Path file) {
        CommandLine run = CommandLine.run("inspect", file.toString());
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void a_file_that_is_not_there_exits_4() {
        CommandLine run = CommandLine.run("inspect", folder.resolve("none.onnx").toString());
        assertEquals(ExitCode.IO, run.code());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void a_text_file_is_no_model() throws IOException {
        Path file = Files.writeString(folder.resolve("notes.txt"), "just some words, and a few more of them");
        assertEquals(ExitCode.INPUT, CommandLine.run("inspect", file.toString()).code());
    }

    @Test
    void an_empty_folder_is_no_model() {
        assertEquals(
                ExitCode.INPUT, CommandLine.run("inspect", folder.toString()).code());
    }
}
