package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
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
import org.junit.jupiter.params.provider.ValueSource;

/** {@code convert --target onnx} as a user types it; what the files compute is StandardModelTest's matter. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConvertToOnnxTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String LLAMA = TESTDATA.resolve("models/tiny-hf/llama").toString();
    private static final String EXPORT =
            TESTDATA.resolve("models/tiny-onnx/bert_eager_script14.onnx").toString();

    @TempDir
    Path folder;

    private Path onnx;

    @BeforeEach
    void name() {
        onnx = folder.resolve("model.onnx");
    }

    private CommandLine convert(String model, String... options) {
        List<String> words = new ArrayList<>(List.of("convert", model, "-o", onnx.toString(), "--target", "onnx"));
        words.addAll(List.of(options));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private long opset() throws IOException {
        try (ModelFile file = ModelFile.open(onnx)) {
            return file.model().graph().map(GraphModel::opset).orElseThrow();
        }
    }

    @ParameterizedTest
    @CsvSource({"21", "23"})
    void a_checkpoint_is_written_at_the_opset_asked_for(String opset) throws IOException {
        CommandLine run = convert(LLAMA, "--opset", opset);
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals(Long.parseLong(opset), opset());
    }

    @Test
    void an_ONNX_file_is_written_at_opset_21_when_none_is_asked_for() throws IOException {
        CommandLine run = convert(EXPORT);
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals(21, opset());
    }

    @Test
    void json_says_what_was_written() throws IOException {
        CommandLine run = convert(LLAMA, "--json");
        JsonNode answer = new ObjectMapper().readTree(run.out());
        assertEquals(onnx.toString(), answer.at("/files/0").asText());
        assertEquals(1, answer.get("files").size());
        assertEquals(21, answer.get("opset").asInt());
        try (ModelFile file = ModelFile.open(onnx)) {
            GraphModel model = file.model().graph().orElseThrow();
            assertEquals(model.graph().nodes().size(), answer.get("nodes").asInt());
            assertEquals(
                    model.graph().initializers().size(), answer.get("constants").asInt());
        }
    }

    @Test
    void a_dry_run_writes_nothing() throws IOException {
        CommandLine run = convert(LLAMA, "--dry-run");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("would write"), run.out());
        try (var files = Files.list(folder)) {
            assertEquals(0, files.count());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"model.onnx", "model.onnx.data"})
    void what_is_in_the_way_is_overwritten_only_with_force(String name) throws IOException {
        byte[] before = {1, 2, 3};
        Files.write(folder.resolve(name), before);
        CommandLine refused = convert(LLAMA);
        assertEquals(ExitCode.USAGE, refused.code());
        assertTrue(refused.err().contains("overwrite it with --force"), refused.err());
        assertArrayEquals(before, Files.readAllBytes(folder.resolve(name)));
        assertEquals(ExitCode.OK, convert(LLAMA, "--force").code());
        assertEquals(21, opset());
    }

    @Test
    void a_model_is_not_written_over_itself() throws IOException {
        assertEquals(ExitCode.OK, convert(LLAMA, "--opset", "23").code());
        CommandLine run = CommandLine.run(
                "convert", onnx.toString(), "-o", onnx.toString(), "--target", "onnx", "--opset", "21", "--force");
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        assertEquals(23, opset());
    }

    @ParameterizedTest
    @CsvSource({
        "LLAMA -o OUT.onnx --target onnx --opset 22, USAGE, 'did you mean 21, 23?'",
        "LLAMA -o OUT.onnx --target onx, USAGE, did you mean onnx?",
        "LLAMA -o OUT.bin --target onnx, USAGE, a file whose name ends in .onnx",
        "LLAMA -o OUT.onnx --target onnx --recipe fp8-block, USAGE, --recipe has no meaning for --target onnx",
        "LLAMA -o OUT --target fp8 --opset 21, USAGE, --opset is for --target onnx",
        "NOWHERE -o OUT.onnx --target onnx, IO, nowhere",
        "BARE -o OUT.onnx --target onnx, INPUT, the model has tensors but no graph"
    })
    void a_failure_has_its_exit_code_and_says_what_to_do(String line, ExitCode code, String says) throws IOException {
        Path bare = folder.resolve("bare.safetensors");
        Files.copy(TESTDATA.resolve("models/tiny-hf/llama/model.safetensors"), bare);
        String[] words = line.replace("OUT", folder.resolve("out").toString())
                .replace("LLAMA", LLAMA)
                .replace("BARE", bare.toString())
                .replace("NOWHERE", folder.resolve("nowhere").toString())
                .split(" ", -1);
        List<String> all = new ArrayList<>(List.of("convert"));
        all.addAll(List.of(words));
        CommandLine run = CommandLine.run(all.toArray(String[]::new));
        assertEquals(code, run.code(), run.err());
        assertTrue(run.err().contains(says), run.err());
        assertFalse(Files.exists(folder.resolve("out.onnx")));
    }
}
