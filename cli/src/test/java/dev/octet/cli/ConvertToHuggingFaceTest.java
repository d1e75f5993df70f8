package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(ReplaceUnderscores.class)
class ConvertToHuggingFaceTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");
    private static final Path EXPORT = MODELS.resolve("tiny-onnx/llama_eager_script17.onnx");

    @TempDir
    private Path folder;

    private CommandLine convert(Path model, String... more) {
        List<String> words = Stream.concat(
                        Stream.of("convert", model.toString(), "-o", out().toString(), "--target", "huggingface"),
                        Stream.of(more))
                .toList();
        return CommandLine.run(words.toArray(String[]::new));
    }

    private Path out() {
        return folder.resolve("restored");
    }

    @Test
    void an_export_becomes_a_folder_of_two_files_with_metadata_that_transformers_asks_for() throws IOException {
        assertEquals(ExitCode.OK, convert(EXPORT).code());
        try (Stream<Path> files = Files.list(out());
                ModelFile weights = ModelFile.open(out().resolve("model.safetensors"))) {
            assertEquals(
                    List.of("config.json", "model.safetensors"),
                    files.map(f -> f.getFileName().toString()).sorted().toList());
            assertEquals("pt", weights.model().metadata().get("format"));
            assertEquals(21, weights.model().tensors().size());
        }
    }

    @Test
    void the_answer_names_the_architecture_the_proof_and_what_the_file_does_not_tell() throws IOException {
        JsonNode answer = new ObjectMapper()
                .readTree(convert(EXPORT, "--json", "--dry-run").out());
        assertEquals("LlamaForCausalLM", answer.get("architecture").asText());
        assertTrue(answer.get("error").asDouble() < 1e-5);
        assertTrue(answer.get("not_in_file").toString().contains("max_position_embeddings"));
        assertFalse(Files.exists(out()));
    }

    @Test
    void a_given_configuration_lies_in_the_folder() throws IOException {
        Path config = MODELS.resolve("tiny-hf/llama/config.json");
        assertEquals(ExitCode.OK, convert(EXPORT, "--config", config.toString()).code());
        ObjectMapper json = new ObjectMapper();
        assertEquals(
                json.readTree(config.toFile()),
                json.readTree(out().resolve("config.json").toFile()));
    }

    @Test
    void the_configuration_of_another_model_leaves_nothing_behind() {
        CommandLine line = convert(
                EXPORT, "--config", MODELS.resolve("tiny-hf/gpt2/config.json").toString());
        assertEquals(ExitCode.INPUT, line.code());
        assertTrue(line.err().contains("GPT2LMHeadModel"), line.err());
        assertFalse(Files.exists(out()));
    }

    @Test
    void a_model_of_no_known_architecture_leaves_nothing_behind() {
        CommandLine line = convert(MODELS.resolve("op-grad/matmul_3dx2d.onnx"));
        assertEquals(ExitCode.INPUT, line.code());
        assertTrue(line.err().contains("models of type bert, "), line.err());
        assertFalse(Files.exists(out()));
    }

    @Test
    void a_folder_that_is_there_is_kept_without_force() throws IOException {
        Files.createDirectory(out());
        CommandLine line = convert(EXPORT);
        assertEquals(ExitCode.USAGE, line.code());
        assertTrue(line.err().contains("--force"), line.err());
    }

    @Test
    void a_configuration_is_refused_for_other_targets() {
        CommandLine line = CommandLine.run(
                "convert",
                EXPORT.toString(),
                "-o",
                folder.resolve("x.onnx").toString(),
                "--target",
                "onnx",
                "--config",
                "c");
        assertEquals(ExitCode.USAGE, line.code());
        assertTrue(line.err().contains("--target huggingface"), line.err());
    }
}
