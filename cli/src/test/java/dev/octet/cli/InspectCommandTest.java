package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
