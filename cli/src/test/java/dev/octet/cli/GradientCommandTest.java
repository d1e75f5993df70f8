package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GradientCommandTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");
    private static final String MODEL =
            MODELS.resolve("op-grad/gemm_tA0_tB0.onnx").toString();
    private static final Path GOLDEN = MODELS.resolve("op-grad/gemm_tA0_tB0.safetensors");

    @TempDir
    Path folder;

    private static CommandLine gradient(String model, Path golden, String... more) {
        String[] words = new String[4 + more.length];
        words[0] = "gradient";
        words[1] = model;
        words[2] = "--golden";
        words[3] = golden.toString();
        System.arraycopy(more, 0, words, 4, more.length);
        return CommandLine.run(words);
    }

    /** The golden file with something changed. */
    private Path changed(BiConsumer<Map<String, Tensor>, Arena> change) throws IOException {
        Path file = folder.resolve("changed.safetensors");
        try (ModelFile golden = ModelFile.open(GOLDEN);
                Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new TreeMap<>(golden.model().tensors());
            change.accept(tensors, arena);
            ModelFile.save(Model.of(tensors, Map.of()), file);
        }
        return file;
    }

    @Test
    void expected_gradients_pass_on_both_devices() {
        for (String device : new String[] {"cpu", "reference"}) {
            CommandLine run = gradient(MODEL, GOLDEN, "--device", device);
            assertEquals(ExitCode.OK, run.code(), run.err());
            assertTrue(run.out().contains("grad.c") && run.out().contains("within"), run.out());
        }
    }

    @Test
    void the_json_answer_has_every_tensor_the_worst_first() throws IOException {
        CommandLine run = gradient(MODEL, GOLDEN, "--json");
        JsonNode answer = new ObjectMapper().readTree(run.out());
        assertTrue(answer.get("passed").asBoolean());
        JsonNode all = answer.get("differences");
        assertEquals(4, all.size());
        for (int i = 1; i < all.size(); i++) {
            assertTrue(all.get(i).get("error").asDouble()
                    <= all.get(i - 1).get("error").asDouble());
        }
    }

    @Test
    void a_gradient_above_the_tolerance_is_exit_1_and_named() throws IOException {
        Path file = changed((t, arena) -> {
            Tensor b = t.get("grad.b");
            float[] values = b == null ? new float[0] : b.toFloats();
            values[3] += 1e-3f;
            t.put("grad.b", Tensor.ofFloats(arena, "grad.b", Shape.of(4, 5), values));
        });
        CommandLine run = gradient(MODEL, file);
        assertEquals(ExitCode.CHECK_FAILED, run.code());
        assertTrue(run.out().contains("of grad.b, above 1.00e-05"), run.out());
        assertEquals(ExitCode.OK, gradient(MODEL, file, "--tolerance", "1e-2").code());
    }

    /** Every verb that needs a graph says the same of tensors without one. */
    @Test
    void tensors_without_a_graph_are_refused_with_what_would_give_them_one() throws IOException {
        Path bare = folder.resolve("bare.safetensors");
        Files.copy(MODELS.resolve("tiny-hf/llama/model.safetensors"), bare);
        CommandLine run = gradient(bare.toString(), GOLDEN);
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("no graph, so Octet does not know what it computes"), run.err());
        assertTrue(run.err().contains("where: " + bare), run.err());
        assertTrue(run.err().contains("put the model's Hugging Face config.json next to it"), run.err());
    }

    @Test
    void a_missing_input_is_named() throws IOException {
        Path file = changed((t, arena) -> t.remove("in.a"));
        CommandLine run = gradient(MODEL, file);
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("'a' is missing"), run.err());
    }

    @Test
    void every_gradient_problem_is_in_the_message() throws IOException {
        Path file = changed((t, arena) -> {
            t.put("in.z", Tensor.ofFloats(arena, "in.z", Shape.of(1), 1));
            t.put("grad.nobody", Tensor.ofFloats(arena, "grad.nobody", Shape.of(1), 1));
            t.put("grad.b", Tensor.ofFloats(arena, "grad.b", Shape.of(2), 1, 2));
        });
        CommandLine run = gradient(MODEL, file);
        assertEquals(ExitCode.INPUT, run.code());
        for (String named : new String[] {"in.z", "grad.nobody", "grad.b"}) {
            assertTrue(run.err().contains(named), run.err());
        }
    }

    @Test
    void a_tensor_of_no_known_meaning_is_refused() throws IOException {
        Path file = changed((t, arena) -> t.put("weight", Tensor.ofFloats(arena, "weight", Shape.of(1), 1)));
        CommandLine run = gradient(MODEL, file);
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("[weight]"), run.err());
    }

    @Test
    void a_whole_model_with_its_loss_passes() {
        CommandLine run = gradient(
                MODELS.resolve("tiny-onnx/gpt2_eager_script17.onnx").toString(),
                MODELS.resolve("tiny-hf/gpt2/golden.safetensors"),
                "--loss",
                "causal-lm",
                "--tie");
        assertEquals(ExitCode.OK, run.code(), run.err() + run.out());
        assertTrue(run.out().contains("out.loss"), run.out());
    }

    @Test
    void parameters_that_the_export_wrote_twice_are_pointed_out() {
        CommandLine run = gradient(
                MODELS.resolve("tiny-onnx/gpt2_eager_script17.onnx").toString(),
                MODELS.resolve("tiny-hf/gpt2/golden.safetensors"),
                "--loss",
                "causal-lm",
                "--tolerance",
                "10");
        assertEquals(ExitCode.OK, run.code(), run.err() + run.out());
        assertTrue(
                run.out().contains("note: m.lm_head.weight has the elements of m.transformer.wte.weight, transposed"),
                run.out());
    }

    @Test
    void labels_without_a_loss_are_explained() {
        CommandLine run = gradient(
                MODELS.resolve("tiny-onnx/gpt2_eager_script17.onnx").toString(),
                MODELS.resolve("tiny-hf/gpt2/golden.safetensors"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("the check has no loss"), run.err());
    }

    @Test
    void a_renamed_gradient_that_is_not_in_the_file_is_named() {
        CommandLine run = gradient(MODEL, GOLDEN, "--rename", "nothing=a");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("the file has no 'grad.nothing'"), run.err());
    }

    @Test
    void wrong_options_are_exit_2() {
        assertEquals(ExitCode.USAGE, gradient(MODEL, GOLDEN, "--device", "gpu").code());
        assertEquals(ExitCode.USAGE, gradient(MODEL, GOLDEN, "--loss", "hinge").code());
        assertEquals(ExitCode.USAGE, gradient(MODEL, GOLDEN, "--rename", "a").code());
        assertEquals(ExitCode.USAGE, CommandLine.run("gradient", MODEL).code());
    }
}
