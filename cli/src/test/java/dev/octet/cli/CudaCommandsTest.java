package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the command line says of GPUs; the same on a machine with one, as no machine has ten thousand. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaCommandsTest {
    private static final String MODEL = Path.of(System.getProperty("octet.testdata"))
            .resolve("models/tiny-onnx/gpt2_eager_script17.onnx")
            .toString();

    @TempDir
    Path folder;

    @Test
    void a_gpu_that_is_not_there_is_refused_in_three_lines() throws IOException {
        Files.createFile(folder.resolve("x.npz")); // read after the device is opened
        Path config = Files.writeString(
                folder.resolve("train.yaml"), "steps: 1\nloss: {type: causal-lm}\ndata: {train: x.npz}\n");
        CommandLine run = CommandLine.run(
                "train",
                MODEL,
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString(),
                "--device",
                "cuda:9999");
        assertEquals(ExitCode.UNAVAILABLE, run.code(), run.err());
        assertEquals("", run.out());
        assertEquals(3, run.err().lines().count(), run.err());
        assertTrue(run.err().contains("  where: "), run.err());
        assertTrue(run.err().contains("--device cpu"), run.err());
        assertTrue(Files.notExists(folder.resolve("run")));
    }

    @Test
    void inspect_tells_what_was_found_for_a_gpu() throws IOException {
        CommandLine text = CommandLine.run("inspect", "--device");
        assertEquals(ExitCode.OK, text.code(), text.err());
        CommandLine json = CommandLine.run("inspect", "--device", "--json");
        assertEquals(ExitCode.OK, json.code(), json.err());
        JsonNode answer = new ObjectMapper().readTree(json.out());
        for (JsonNode part : answer.get("parts")) {
            assertTrue(text.out().contains("\n" + part.get("name").asText()), text.out());
            String told = part.get("problem").isNull() ? "version" : "fix";
            assertTrue(text.out().contains(part.get(told).asText()), text.out());
            assertTrue(text.out().contains(part.get("where").asText()), text.out());
        }
        assertTrue(answer.get("parts").size() >= 3, json.out());
        boolean usable = answer.get("usable").asBoolean();
        assertTrue(text.out().endsWith(usable ? "--device cuda can be used\n" : "--device cuda cannot be used\n"));
        answer.get("gpus")
                .forEach(g -> assertTrue(text.out().contains(g.get("name").asText()), text.out()));
    }

    @Test
    void inspect_takes_a_model_or_the_device() {
        CommandLine run = CommandLine.run("inspect", "--device", MODEL);
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("--device takes no MODEL"), run.err());
    }
}
